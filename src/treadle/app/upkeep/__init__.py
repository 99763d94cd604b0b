"""Checks and the sizes of what is stored."""
