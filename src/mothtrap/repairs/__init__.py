"""Repairs of a script: one file per rule whose findings have one certain repair."""
