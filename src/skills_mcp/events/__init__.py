"""Events: tracking, spooling, publishing and collecting."""
