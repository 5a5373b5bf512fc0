"""How the tables of events were made and changed, one file for each time."""
