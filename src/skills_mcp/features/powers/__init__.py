"""Powers: hosts, commands and files that skills name, and the additions of a change."""

POWERS_FILE = "powers.yaml"
