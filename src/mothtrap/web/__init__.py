"""Web page of `mothtrap ui`: reads runs, serves them on this machine, changes nothing in them."""
