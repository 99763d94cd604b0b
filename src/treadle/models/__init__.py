"""The part that answers: one file per provider, and a model that plays a script."""
