"""Finding, describing and annotating threads."""
