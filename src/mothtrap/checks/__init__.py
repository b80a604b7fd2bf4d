"""Checks before a training run: one check per file; subjects in, faults out.

`proofs/` contains checks of one recorded step, `data/` checks of the datasets, and `baselines/`
comparisons with simple models. No file here names a framework: an adapter provides the subject
(`checks/subject.py`).
"""
