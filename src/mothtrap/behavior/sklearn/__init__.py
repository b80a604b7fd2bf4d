"""Models of scikit-learn with which the probed model is compared."""
