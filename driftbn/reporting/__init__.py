"""What a report says: in words, as data, and as a page."""
