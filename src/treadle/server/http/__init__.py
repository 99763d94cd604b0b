"""The server to those who ask: connections, limits, endpoints, answers, live changes."""
