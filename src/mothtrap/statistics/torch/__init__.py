"""Statistics of PyTorch tensors.

Functions of this package do not record autograd, draw random numbers, write to their inputs, or
change settings of torch. They wait for an accelerator only as documented.
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
