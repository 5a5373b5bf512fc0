"""Untrusted YAML, Unicode, secrets, and rendering of values."""
