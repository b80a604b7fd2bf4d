"""Sampled inspections of layers: initial weights, units, outputs, and attention."""
