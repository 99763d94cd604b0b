"""Threads as the server keeps them: what comes in, is changed, told."""
