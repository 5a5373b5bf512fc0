"""Files: paths that cannot escape, and arrays that are mapped."""
