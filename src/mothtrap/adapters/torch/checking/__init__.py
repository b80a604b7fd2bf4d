"""Checks before a training run: repeat a recorded step with one change."""
