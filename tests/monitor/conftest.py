"""Programs that are run by the tests, not collected."""

collect_ignore = ["judged_every_step.py"]
