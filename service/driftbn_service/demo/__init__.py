"""A stream with drifts at known places, watched by the real daemon."""
