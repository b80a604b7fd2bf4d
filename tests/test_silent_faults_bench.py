"""Some faults of the silent-fault bench, on real jobs of two workers."""

from __future__ import annotations

import pytest
from bench import silent_faults


@pytest.mark.full
@pytest.mark.parametrize("name", ["rate_on_one", "all_reduce_missing", "loss_times_workers"])
def test_a_silent_fault_is_named_and_its_twin_is_in_order(name: str) -> None:
    [outcome] = silent_faults.main(["--only", name, "--dtypes", "fp32"])
    assert (outcome.is_named, outcome.alarm) == (True, ""), outcome


def test_the_bench_has_fourteen_faults() -> None:
    names = [fault.name for fault in silent_faults.FAULTS]
    assert len(set(names)) == len(names) == 14
    program = silent_faults.JOB.read_text(encoding="utf-8")
    assert all(f'"{name}"' in program for name in names)
