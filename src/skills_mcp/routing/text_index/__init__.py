"""The inverted index below the ranked algorithm: words of skills, in arrays."""
