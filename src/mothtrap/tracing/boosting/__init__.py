"""Boosting libraries in common: rounds as steps, metrics, tables, trees, importance, scores."""
