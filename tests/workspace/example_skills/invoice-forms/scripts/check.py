"""Says how many fields an invoice has."""

import sys
from pathlib import Path

fields = (Path(__file__).parents[1] / "references" / "FIELDS.md").read_text()
sys.stdout.write(f"checked {' '.join(sys.argv[1:])}: {fields.count('- ')} fields\n")
