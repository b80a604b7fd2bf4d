"""Files of a run, as bytes without further interpretation."""
