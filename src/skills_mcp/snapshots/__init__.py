"""The served snapshot, and its replacement by the next one."""
