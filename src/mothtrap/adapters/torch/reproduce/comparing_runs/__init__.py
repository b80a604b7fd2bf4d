"""What two runs are compared by: digests, and what their numbers depend on."""
