"""State of the job that all observers share: names, steps, retained outputs, random states."""
