"""What a skill is, whichever file it came from (001 §4, §6, §7)."""
