"""Rules on many stored runs: one unit of work per run, on any executor."""
