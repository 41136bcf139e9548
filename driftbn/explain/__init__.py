"""What a report says: in words, as data, as a picture and as a page."""
