"""Recordings: what a model streamed, kept in a file and played again."""
