"""The neutral half of every adapter: the job, its steps, and what its observers share."""
