"""Repairs of a script: one file per rule whose findings have a single certain repair."""
