"""The events of all machines, in a database."""
