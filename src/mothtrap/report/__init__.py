"""Summary of a run, and the texts created from it."""
