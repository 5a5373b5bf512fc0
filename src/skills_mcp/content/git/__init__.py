"""Git: fetch from one remote, verify, list and read; the only user of Git."""
