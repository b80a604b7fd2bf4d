"""Files of a run, as uninterpreted bytes."""
