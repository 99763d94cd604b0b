"""What an editor is told of a session, and what it may say to one."""
