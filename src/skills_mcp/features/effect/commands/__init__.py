"""Commands of this feature; the name of a file is that of its command."""
