"""How a package comes into a folder of skills: read, looked at, put in place."""
