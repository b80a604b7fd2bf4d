"""Take the snapshot of a step, play it again, and compare the results."""
