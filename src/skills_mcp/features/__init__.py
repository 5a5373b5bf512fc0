"""Features: each folder can be deleted, and the core does not notice."""
