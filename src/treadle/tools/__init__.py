"""The part that does: what a tool is, and the tools that come with Treadle."""
