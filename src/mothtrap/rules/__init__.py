"""Rules, one fault per file. They turn windows into findings, without I/O, clock, or framework."""
