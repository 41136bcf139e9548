"""Real servers for tests: processes of their own, on loopback, each with its own directory."""
