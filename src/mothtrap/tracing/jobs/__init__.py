"""The job that adapters and the session share: its steps, source lines, and process."""
