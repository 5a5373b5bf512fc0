"""Process groups, memory, caches and back-off."""
