"""Captured tensors of a run: their values, their statistics, their distributions."""
