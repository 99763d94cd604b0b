"""The pages of this machine's own threads."""
