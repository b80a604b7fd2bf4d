"""One fault per file: windows in, findings out; no I/O, clock, log or framework."""
