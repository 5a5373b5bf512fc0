"""Processes: groups of them, and the memory of this one."""
