"""Servers of tools (MCP): which the settings name, and how they are tried."""
