"""Memory of this process."""

from __future__ import annotations

import math
import mmap
from pathlib import Path

import pytest

from mothtrap.tracing.jobs.process_memory import ProcessMemory, peak_bytes


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="of Linux alone")
def test_memory_that_was_freed_counts() -> None:
    seen = ProcessMemory()
    before, limit = seen.now()
    with mmap.mmap(-1, 40_000_000) as fresh:  # memory of arrays may have been taken before
        for page in range(0, len(fresh), 4096):
            fresh[page] = 1
    after, _ = seen.now()
    assert after - before > 30_000_000
    assert limit > after
    assert peak_bytes() >= after * 0.9
    assert math.isfinite(limit)
