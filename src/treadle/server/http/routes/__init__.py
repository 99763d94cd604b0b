"""The endpoints of the API, as tables: each parses nothing and calls one function of the server."""
