"""What lies on the disk: snapshots, who reads them, and what is remembered."""
