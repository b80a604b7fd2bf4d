"""Models of scikit-learn that the model under probe is compared with."""
