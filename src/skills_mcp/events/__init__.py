"""Analytics: events of what is used, none of them lost."""
