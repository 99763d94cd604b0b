"""The part that decides: pure values and pure machines. No I/O, no clock, no randomness."""
