"""History of skills: who changed them, in which review, and what two commits serve."""
