"""The conversation machine: a person talks with the agent (the source document's seven states)."""
