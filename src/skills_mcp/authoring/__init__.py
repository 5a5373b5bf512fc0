"""Before a merge: what an author checks, tests and asks."""
