"""Who asks, and which skills that caller may see."""
