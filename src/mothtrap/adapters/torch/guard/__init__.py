"""Keeps steps that are not sound from being applied."""
