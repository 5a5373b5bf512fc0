"""What people look at: pages and REST, and how people sign in to them."""
