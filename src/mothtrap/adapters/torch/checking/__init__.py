"""Checks before a training run: one recorded step, repeated with one thing changed."""
