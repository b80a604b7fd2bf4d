"""Simple models from scikit-learn."""
