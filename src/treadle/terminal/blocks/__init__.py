"""What is committed to the scrollback, one kind of block a file. All of them import rich."""
