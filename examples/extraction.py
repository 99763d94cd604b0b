"""Facts out of a text, as a value of a type: what does not fit is sent back with the reason.

python examples/extraction.py FOLDER
"""

import sys
from datetime import date
from decimal import Decimal

from pydantic import BaseModel, Field

from treadle import Agent, LocalStore, ScriptedModel

LETTER = "Dear all, please pay 12 hours at 80.50 an hour, until the first of May. Ann Weaver"


class Invoice(BaseModel):
    """What is to be paid."""

    sender: str
    hours: int = Field(gt=0)
    rate: Decimal
    due: date


# In place of a real one ("openai:gpt-5.5", say): what it would answer, wrong at first.
MODEL = ScriptedModel.of(
    {"text": '{"sender": "Ann Weaver", "hours": 12, "rate": "80.50", "due": "May 1"}'},
    {"text": '{"sender": "Ann Weaver", "hours": 12, "rate": "80.50", "due": "2026-05-01"}'},
)


def main(folder: str) -> None:
    reader = Agent(
        "reader",
        model=MODEL,
        output=Invoice,
        store=LocalStore(folder),
        instructions="Read invoices. It is 2026.",
    )
    invoice = reader.run_sync(LETTER).output
    print(f"{invoice.sender}: {invoice.hours * invoice.rate} until {invoice.due:%d %B}")


main(*sys.argv[1:])
