"""Agent hosts: their configuration files, plugins and hooks, and checks of all that.

Rule: edits of a host's file keep all other lines, comments too.
"""
