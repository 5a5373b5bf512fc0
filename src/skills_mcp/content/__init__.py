"""Where the files come from: folders, and branches of Git repositories."""
