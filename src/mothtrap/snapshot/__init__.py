"""Snapshots as files for replay: arrays and JSON, without executable code."""
