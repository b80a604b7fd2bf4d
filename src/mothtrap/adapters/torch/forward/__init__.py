"""Modules in forwards: their calls, modes and outputs, in training and evaluation."""
