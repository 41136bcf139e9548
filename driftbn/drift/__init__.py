"""The decision: whether a window differs from the reference, in what, and how sure that is."""
