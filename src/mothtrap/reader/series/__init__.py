"""Numbers of a run over its steps, for one or all workers: scalars, statistics, times."""
