"""Summary of a run, and the texts made from it."""
