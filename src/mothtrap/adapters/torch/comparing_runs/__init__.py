"""Data for comparing two runs: digests, and the settings that affect numbers."""
