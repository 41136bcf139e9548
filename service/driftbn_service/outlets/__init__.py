"""Where events go; one file a kind."""
