"""Reading runs, live or done: the analysis API. Needs no framework."""
