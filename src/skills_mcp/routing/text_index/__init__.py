"""The engine below the ranking: an inverted index of words, in arrays."""
