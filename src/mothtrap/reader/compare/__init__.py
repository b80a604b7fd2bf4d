"""Comparison of two runs: where they part, and why."""
