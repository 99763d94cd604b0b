"""People who sign in with OpenID Connect, at a provider that the server is started with."""
