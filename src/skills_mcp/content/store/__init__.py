"""The cache on the disk: snapshots, their leases, the pointer and the sync state."""
