"""Threads as pages of HTML: what they show, and the site that shows them."""
