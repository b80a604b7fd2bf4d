"""Data types and protocols that all other packages use."""
