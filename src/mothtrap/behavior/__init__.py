"""Behavior of trained models: probes ask a predict function, and report where it is wrong."""
