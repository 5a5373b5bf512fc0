"""The event database of an HTTP server, with its migrations and queries."""
