"""Commands of this feature that are answered before click is imported."""
