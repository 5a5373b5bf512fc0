"""Usage reports from recorded events, and suggested changes to skills."""
