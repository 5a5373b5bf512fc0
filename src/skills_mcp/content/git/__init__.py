"""Git: fetch, verify, list and read; the only user of Git."""
