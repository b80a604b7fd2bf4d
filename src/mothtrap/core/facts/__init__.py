"""Facts that adapters report, one subject per file; rules evaluate them, adapters do not."""
