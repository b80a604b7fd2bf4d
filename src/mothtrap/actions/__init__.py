"""Reactions to findings and other events, one file each; see `core.actions`."""
