"""Where records come from; one file a kind."""
