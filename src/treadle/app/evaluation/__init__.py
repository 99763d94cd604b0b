"""Prompts of recorded threads, run again: with another model, other words, other tools."""
