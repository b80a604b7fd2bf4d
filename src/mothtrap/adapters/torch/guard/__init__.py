"""Guard that prevents unsound steps from being applied."""
