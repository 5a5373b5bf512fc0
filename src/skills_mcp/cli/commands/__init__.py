"""Commands of the core; the name of a file is that of its command."""
