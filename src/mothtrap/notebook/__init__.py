"""Views of a run in a notebook: its report, and a strip that follows it."""
