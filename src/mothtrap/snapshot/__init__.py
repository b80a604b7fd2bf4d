"""What is needed to do a step again: its form in files. Arrays and JSON, nothing executable."""
