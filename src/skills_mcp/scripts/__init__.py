"""Whether a script or a command may run, and running it."""
