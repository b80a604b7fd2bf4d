"""A recorded step done again in a process that runs its script anew."""
