"""Numbers of a run over its steps: scalars, statistics, times, of one worker and of all."""
