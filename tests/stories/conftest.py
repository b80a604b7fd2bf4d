"""The programs here run as scripts and are never collected."""

collect_ignore = ["programs"]
