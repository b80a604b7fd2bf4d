"""Adapters, one framework per module or package."""
