"""Checks before a training run: one check per file; subjects in, faults out.

`proofs/` holds what can be shown on one recorded step, `data/` tests of the datasets, and
`baselines/` simple models to compare with. No file here names a framework: an adapter provides
the subject (`checks/subject.py`).
"""
