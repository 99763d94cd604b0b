"""Answers and words from another device of the same person, signed there."""
