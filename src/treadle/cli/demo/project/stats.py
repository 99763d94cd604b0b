"""Small statistics."""


def median(values):
    """The middle value; with an even number of values, the mean of the two in the middle."""
    ordered = sorted(values)
    return ordered[len(ordered) // 2]
