"""What modules do in a forward: their calls, modes and outputs, in training and evaluation."""
