"""Threads on a server: sending, fetching, sharing and removing them."""
