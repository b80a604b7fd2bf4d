"""What is minimised: how losses are computed, of what, and what they are given."""
