"""Items that a script has logged, other than numbers and tensors."""
