"""Data by which two runs are compared: digests, and the settings that affect numbers."""
