"""OpenAI: the Responses API, and Chat Completions for every endpoint that speaks it."""
