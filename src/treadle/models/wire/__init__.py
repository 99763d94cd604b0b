"""HTTP as all providers use it: events, bounds, the skeleton of a provider."""
