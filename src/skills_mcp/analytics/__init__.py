"""Count what is used, and lose nothing (001 §10)."""
