"""What a client and a server say to each other: values and words, no I/O."""
