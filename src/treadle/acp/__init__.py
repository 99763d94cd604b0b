"""Speaks the Agent Client Protocol with an editor, over standard input and output."""
