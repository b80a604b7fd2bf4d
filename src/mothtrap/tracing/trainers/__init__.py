"""Handles of trainers and loggers that work on top of a framework."""
