"""The shared half of every adapter: the job, its steps, and what its observers share."""
