"""Things that a script has logged beside numbers and tensors."""
