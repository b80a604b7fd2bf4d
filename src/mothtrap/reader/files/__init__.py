"""The files of a run, read as they grow: each byte once, and committed records only."""
