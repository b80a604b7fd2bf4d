"""The job as all observers know it: names, steps, retained outputs, random states."""
