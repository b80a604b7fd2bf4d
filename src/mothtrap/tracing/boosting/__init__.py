"""The shared part of boosting libraries: rounds, metrics, tables, trees, importance, scores."""
