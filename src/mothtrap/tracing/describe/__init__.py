"""Definitions of facts that every framework shares, computed from arrays on the host."""
