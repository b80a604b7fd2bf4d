"""Parts of `bench/capture.py`: measurements, pairing, and tables.

`pairing`, `processors`, `jobs` and the models need torch and the standard library alone: they
run in the environments of other tools, too.
"""
