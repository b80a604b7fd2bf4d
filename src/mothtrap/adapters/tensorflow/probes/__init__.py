"""Probes in TensorFlow programs: cells that programs write to, and the values read from them."""
