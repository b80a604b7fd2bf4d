"""The shared part of all adapters: the job, its steps, and definitions for observers."""
