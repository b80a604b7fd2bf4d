"""Captured tensors of a run: their values, statistics, and distributions."""
