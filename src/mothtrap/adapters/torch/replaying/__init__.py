"""Replay of a recorded step in a process that runs its script anew."""
