"""Statistics of PyTorch tensors.

Nothing here records autograd, draws random numbers, writes to its inputs, changes a
setting of torch, or waits for an accelerator more often than its docstring says.
"""

from mothtrap.statistics.torch.exponents import count_exponents_of as count_exponents_of
from mothtrap.statistics.torch.fingerprint import fingerprint as fingerprint
from mothtrap.statistics.torch.norms import norms as norms
from mothtrap.statistics.torch.raw import copy_bytes as copy_bytes
from mothtrap.statistics.torch.raw import describe as describe
from mothtrap.statistics.torch.raw import digest as digest
from mothtrap.statistics.torch.raw import digests as digests
from mothtrap.statistics.torch.raw import gather_bytes as gather_bytes
from mothtrap.statistics.torch.raw import to_numpy as to_numpy
from mothtrap.statistics.torch.row_digests import row_digests as row_digests
from mothtrap.statistics.torch.rows import nonfinite_counts as nonfinite_counts
from mothtrap.statistics.torch.rows import summarize as summarize
from mothtrap.statistics.torch.units import inactive_units as inactive_units
from mothtrap.statistics.torch.units import saturated_units as saturated_units

__all__ = [
    "copy_bytes",
    "count_exponents_of",
    "describe",
    "digest",
    "digests",
    "fingerprint",
    "gather_bytes",
    "inactive_units",
    "nonfinite_counts",
    "norms",
    "row_digests",
    "saturated_units",
    "summarize",
    "to_numpy",
]
