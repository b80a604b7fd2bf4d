"""Programs that the tests run; never collected."""

collect_ignore = ["judged_every_step.py"]
