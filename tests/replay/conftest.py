"""The programs here run as scripts and are never collected."""

collect_ignore = ["light", "loops", "programs"]
collect_ignore_glob = ["trainers/by_*.py"]
