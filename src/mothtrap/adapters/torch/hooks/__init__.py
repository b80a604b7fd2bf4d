"""The hooks of a process or of given objects, and the tracer that assembles its observers."""
