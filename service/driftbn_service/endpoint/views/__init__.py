"""What each group of routes answers."""
