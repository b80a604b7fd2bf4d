"""Trained models as functions that are asked, one framework per file; see `core.wrapped_models`."""
