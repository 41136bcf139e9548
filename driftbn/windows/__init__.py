"""Codes of a stream as windows: the buffer that cuts them, and event time in slots."""
