"""Safe paths, durable files, locks, archives and arrays on disk."""
