"""Where settings come from: files and environment; and who may set what."""
