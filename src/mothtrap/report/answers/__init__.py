"""Short answers about a run for tools and coding agents, one question each."""
