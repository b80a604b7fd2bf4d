"""Runs the rules over the steps of a worker, while it trains or afterwards."""
