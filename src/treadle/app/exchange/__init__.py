"""Threads out of this machine and into it, and sessions of other programs."""
