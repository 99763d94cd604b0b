"""The part that knows the folder: git context, auto-commit, environment."""
