"""Pages of the web: what may be reached, how a page is fetched, what a model reads of it."""
