"""Sampled inspections of layers: their initial weights, units, outputs, attention."""
