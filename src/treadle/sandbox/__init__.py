"""What holds a command: how much of this machine it sees, may change, reach and use up."""
