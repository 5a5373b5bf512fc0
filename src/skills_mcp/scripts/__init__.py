"""May a script run, and running it (001 §8.4, §12.2)."""
