"""The HTTP endpoint: health, metrics, history, live events and ingest."""
