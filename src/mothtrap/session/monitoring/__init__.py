"""Monitors outside of jobs: they follow runs, evaluate rules, and act (`mothtrap monitor`)."""
