"""The index: lists and searches threads without reading them."""
