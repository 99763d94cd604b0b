"""What an answer cost."""
