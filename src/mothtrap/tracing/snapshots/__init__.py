"""Take the snapshot of a step, replay it, and compare the results."""
