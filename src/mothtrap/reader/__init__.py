"""Reading active and finished runs: the analysis API. Needs no framework."""
