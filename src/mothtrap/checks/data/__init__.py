"""Tests of the datasets that the loaders read."""
