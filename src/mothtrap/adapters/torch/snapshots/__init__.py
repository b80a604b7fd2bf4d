"""The state of a training run, for a snapshot."""
