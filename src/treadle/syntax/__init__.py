"""Whether files parse."""
