"""Graphs and networks: values, what differs between two, and their text forms."""
