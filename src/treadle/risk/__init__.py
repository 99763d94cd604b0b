"""What is dangerous about a command, seen in its words. Advice: the sandbox is the boundary."""
