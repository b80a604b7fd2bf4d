"""Programs here are run as scripts, never collected."""

collect_ignore = ["endless_training.py", "small_training.py", "plant"]
