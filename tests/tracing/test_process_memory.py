"""Memory of this process."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from mothtrap.tracing.process_memory import ProcessMemory, peak_bytes


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="of Linux alone")
def test_memory_that_was_freed_counts() -> None:
    seen = ProcessMemory()
    before, limit = seen.now()
    np.ones(40_000_000 // 8).sum()
    after, _ = seen.now()
    assert after - before > 30_000_000
    assert limit > after
    assert peak_bytes() >= after * 0.9
    assert math.isfinite(limit)
