"""Numbers of a run over its steps, of one worker and of all: scalars, statistics, times."""
