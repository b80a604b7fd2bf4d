"""Sessions: run, watch, check, and replay a training job."""
