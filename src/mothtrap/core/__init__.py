"""Words and protocols that everything else uses."""
