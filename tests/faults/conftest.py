"""The programs here run as scripts and are never collected."""

collect_ignore = ["endless_training.py", "small_training.py", "plant"]
