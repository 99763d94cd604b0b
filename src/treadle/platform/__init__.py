"""What differs between operating systems: each concern with all its implementations."""
