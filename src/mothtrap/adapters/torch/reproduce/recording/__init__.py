"""What a script feeds into its steps, kept for the latest ones."""
