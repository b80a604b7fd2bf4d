"""Facts that adapters report, one subject per file; rules judge, adapters do not."""
