"""A bad step narrowed to an operation and to rows."""
