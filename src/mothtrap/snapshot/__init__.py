"""Snapshots as files, for replay. Arrays and JSON, nothing executable."""
