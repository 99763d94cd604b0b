"""The team server: threads of many machines and people, over HTTP."""
