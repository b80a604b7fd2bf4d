"""Sampling of steps, and the order of events in a step."""
