"""Threads of the server to which workers append: a store for agents, `PostgresStore`."""
