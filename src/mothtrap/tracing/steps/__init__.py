"""Sampling of steps, and the order of events within a step."""
