"""Text from strangers: YAML, Unicode and secrets."""
