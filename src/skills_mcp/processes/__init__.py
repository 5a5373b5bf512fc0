"""Processes: groups of them, the memory of this one, and when to try again."""
