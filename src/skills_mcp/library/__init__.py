"""Every use case, free of any protocol."""
