"""The task machine: a task runs by itself to Done or Error (the second source document's graph)."""
