"""What adapters report once in a while, one subject per file; rules judge, adapters do not."""
