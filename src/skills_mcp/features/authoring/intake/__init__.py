"""Uploads of packages: unpack, validate, install."""
