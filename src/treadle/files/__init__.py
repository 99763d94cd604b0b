"""Files of a workspace: how one is replaced as a whole."""
