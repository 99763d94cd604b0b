"""Versions of files: their history, who wrote them, how they come back."""
