"""Bytes of a run on disk; knows no meaning beyond the records that it carries."""
