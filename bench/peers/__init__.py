"""The same bot in other libraries."""
