"""Webhooks: what people want to be told of elsewhere, and telling it until somebody has heard."""
