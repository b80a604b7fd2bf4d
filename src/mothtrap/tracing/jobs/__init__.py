"""A job as adapters and the session share it: its steps, its lines, its process."""
