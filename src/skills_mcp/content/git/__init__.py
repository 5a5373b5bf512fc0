"""Git, for one remote: asked, checked, listed and read; the only part that knows it."""
