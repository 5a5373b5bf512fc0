"""Where the files come from: a folder, or a branch of a Git repository (001 §9)."""
