"""The command line: one file per command; logic lives below."""
