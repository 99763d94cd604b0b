"""The files of a workspace as they were, and how they get back."""
