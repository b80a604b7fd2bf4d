"""Record of an experiment: data found without changing the script, and logged data."""
