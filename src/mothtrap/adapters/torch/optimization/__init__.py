"""Optimizer steps: ownership of parameters, gradients that reach them, and their changes."""
