"""The interactive terminal: one keyboard, one screen, one conversation at a time."""
