"""The page at ``/``: static files that show what the API says."""
