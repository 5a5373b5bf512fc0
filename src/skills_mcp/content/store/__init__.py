"""The cache on disk: commits, leases, pointer and sync state."""
