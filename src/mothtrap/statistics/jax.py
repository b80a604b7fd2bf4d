"""Statistics of JAX arrays, computed on the host; on a CPU without a copy."""

from __future__ import annotations

from typing import Any, Final

import jax
import numpy as np

from mothtrap.statistics.arrays import HostArrays


def _to_numpy(array: jax.Array) -> np.ndarray[Any, Any]:
    return np.asarray(array)


_ON_HOST: Final = HostArrays[jax.Array](_to_numpy)
summarize = _ON_HOST.summarize
norms = _ON_HOST.norms
count_exponents_of = _ON_HOST.count_exponents_of
describe = _ON_HOST.describe
copy_bytes = _ON_HOST.copy_bytes
gather_bytes = _ON_HOST.gather_bytes
digests = _ON_HOST.digests
row_digests = _ON_HOST.row_digests
to_numpy = _ON_HOST.to_numpy
