"""Simple models that the trained model has to beat."""
