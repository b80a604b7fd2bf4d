"""Replay of a recorded step in a process that runs the script again."""
