"""Files: paths that cannot escape, durable files, locks, and arrays that are mapped."""
