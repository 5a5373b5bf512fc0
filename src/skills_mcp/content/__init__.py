"""Sources of skills: plain folders, Git repositories and released archives."""
