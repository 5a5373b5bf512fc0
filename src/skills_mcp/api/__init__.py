"""The Python API: skills inside another program, without a server."""
