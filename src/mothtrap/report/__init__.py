"""What a run amounts to: one summary, and the texts made from it."""
