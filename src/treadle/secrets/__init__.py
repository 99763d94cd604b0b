"""Secrets: which values are secret, how tokens are recognised, and how texts lose both."""
