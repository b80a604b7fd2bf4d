"""Hooks for a process or for given objects, and the tracer that connects the observers."""
