"""Probes, one weakness per file; the file's name is the name of the weakness.

Another package adds probes through entry points of the group `mothtrap.behavior.probes`.
"""
