"""Snapshots of steps are taken when the settings allow it."""

from __future__ import annotations

from typing import Any

import pytest

from mothtrap.testing.adapters import Process
from mothtrap.tracing.jobs.adapter_job import AdapterJob
from mothtrap.tracing.snapshots.taking import SnapshotsOfSteps


@pytest.mark.parametrize(
    ("settings", "active"),
    [
        ({}, True),
        ({"snapshots": 0}, False),
        ({"ring_mb": 0.0}, False),
        ({"redact": ("patient_*",)}, False),
    ],
)
def test_none_are_taken_where_they_are_off_or_would_hold_what_is_to_be_redacted(
    settings: dict[str, Any], active: bool
) -> None:
    process = Process("numpy", **settings)
    assert SnapshotsOfSteps(AdapterJob(process.job, "toy")).active is active
