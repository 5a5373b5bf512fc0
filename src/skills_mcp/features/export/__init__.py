"""Export skills as folders for hosts without a server."""
