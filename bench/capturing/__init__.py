"""Parts of `bench/capture.py`: what is measured, how it is paired, and the table of it.

`pairing`, `processors`, `jobs` and the models need torch and the standard library alone: they
run in the environments of other tools, too.
"""
