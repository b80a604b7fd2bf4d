"""Inputs of the latest steps, recorded for replay."""
