"""Comparison of two runs: where they diverge, and why."""
