"""Observers of training data: loaders, their batches, and the inputs of models."""
