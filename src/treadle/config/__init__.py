"""Where settings come from: files, environment, flags; and who may set what."""
