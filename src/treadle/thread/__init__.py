"""The part that remembers: records, their chain, the fold to a thread, recovery. Pure."""
