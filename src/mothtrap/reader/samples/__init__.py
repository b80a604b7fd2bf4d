"""Samples that a run trained on: where each was used, and which occur in bad steps."""
