"""The record of an experiment: what is found without a change of the script, and what it logs."""
