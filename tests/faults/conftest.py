"""`endless_training.py` is run as a script, never collected."""

collect_ignore = ["endless_training.py"]
