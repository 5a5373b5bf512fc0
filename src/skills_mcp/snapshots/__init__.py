"""What is served now, and how the next state is made from it."""
