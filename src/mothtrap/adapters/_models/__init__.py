"""Trained models as functions, one framework per file; see `core.wrapped_models`."""
