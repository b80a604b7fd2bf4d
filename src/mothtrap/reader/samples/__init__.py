"""Samples that a run trained on: where each was used, and which go with bad steps."""
