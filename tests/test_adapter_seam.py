"""Adapters reach the session through `core.adapters.Job` only; that of PyTorch goes further."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.test_house import PACKAGE, SOURCE, files, imported, plant

JOBS = f"{PACKAGE}.tracing.jobs"
BEHIND = (f"{JOBS}.adapter_job", f"{JOBS}.process_job", f"{PACKAGE}.capture.")


def seam_offences(source: Path) -> list[str]:
    """Return the adapters that import the modules behind a job."""
    return [
        f"{path}:{line} imports {name}"
        for path, tree in files(source)
        if path.parts[0] == "adapters" and path.parts[1] != "torch"
        for name, line in imported(tree)
        if name.startswith(BEHIND)
    ]


def test_adapters_beside_pytorch_use_the_seam_only() -> None:
    assert seam_offences(SOURCE) == []


@pytest.mark.parametrize(
    "text",
    [
        "from mothtrap.tracing.jobs.adapter_job import traced",
        "from mothtrap.tracing.jobs.process_job import ProcessJob",
        "def f():\n    from mothtrap.capture.recorder import Recorder\n",
    ],
)
def test_the_check_sees_a_planted_import(tmp_path: Path, text: str) -> None:
    plant(tmp_path, "adapters/torch/good.py", text)
    plant(tmp_path, "adapters/good.py", "from mothtrap.tracing.handle import BaseHandle")
    plant(tmp_path, "adapters/bad.py", text)
    assert len(seam_offences(tmp_path)) == 1
