"""Probes in TensorFlow programs: places to write to, and what is read from them."""
