"""Web page of `mothtrap ui`: reads runs, and serves them on this machine without changing them."""
