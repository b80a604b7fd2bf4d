"""A run from its start to its end: run, watch, replay."""
