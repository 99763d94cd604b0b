"""What `treadle demo` plays: a small project with a real bug, and a script for the model."""
