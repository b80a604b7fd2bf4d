"""Tests of the data sets that the loaders read."""
