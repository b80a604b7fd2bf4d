"""Probes, one weakness per file. The name of the file is the name of the weakness.

Another package adds probes through entry points of the group `mothtrap.behavior.probes`.
"""
