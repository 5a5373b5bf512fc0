"""Where agents read: the files of each host, what stands in them, and what it starts.

Rule: what a person wrote into a file of a host stays as it is, comments too.
"""
