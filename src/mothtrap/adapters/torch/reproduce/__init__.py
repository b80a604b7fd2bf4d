"""Recording and replay of steps, and comparison of two trainings."""
