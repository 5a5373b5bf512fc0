"""Text: untrusted YAML, Unicode, secrets, and how values are rendered."""
