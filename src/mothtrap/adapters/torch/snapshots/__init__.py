"""The state of a training, taken for a snapshot."""
