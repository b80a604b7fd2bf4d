"""Checks of Keras models and `fit` scripts, in the process itself."""
