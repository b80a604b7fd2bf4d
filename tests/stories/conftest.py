"""The programs here are run as scripts, never collected."""

collect_ignore = ["programs"]
