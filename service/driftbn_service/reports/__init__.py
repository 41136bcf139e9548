"""A monitor's history told for a chat message or a post-mortem: words, page, picture."""
