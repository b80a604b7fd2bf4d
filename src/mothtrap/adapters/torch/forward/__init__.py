"""Observers of forward passes: calls, modes and outputs of modules, in training and evaluation."""
