"""The programs here are run as scripts, never collected."""

collect_ignore = ["light", "loops", "programs"]
collect_ignore_glob = ["trainers/by_*.py"]
