"""What steps do: who owns which parameter, what reaches it, how it changes."""
