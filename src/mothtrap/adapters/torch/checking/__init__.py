"""Checks before a training run: repeat one recorded step with one thing changed."""
