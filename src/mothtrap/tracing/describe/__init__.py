"""Framework-independent definitions of facts, computed from arrays on the host."""
