"""A snapshot holds digests of the lines of the script, as they were when the run began."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.session.test_snapshots import taken
from tests.store.test_layout import info

from mothtrap.core.config import Config
from mothtrap.core.facts.snapshots import SnapshotKept
from mothtrap.session.snapshots import SnapshotWriter
from mothtrap.snapshot import format as files
from mothtrap.snapshot.code_locations import line_digests
from mothtrap.store import layout


@pytest.mark.parametrize("edited", [False, True])
def test_lines_are_kept_of_a_source_that_is_as_it_was_when_the_run_began(
    tmp_path: Path, edited: bool
) -> None:
    script = tmp_path / "train.py"
    script.write_text("import torch\nloss.backward()\n")
    made = info(config={}, cwd=str(tmp_path))
    began_s = made.created_s - 10 if not edited else made.created_s + 10
    os.utime(script, (began_s, began_s))
    attempt = layout.create_run(tmp_path / "runs" / "x", made)
    told: list[SnapshotKept] = []
    errors: list[BaseException] = []
    writer = SnapshotWriter(attempt, 0, Config(), "torch", {}, None, told.append, errors.append)
    writer.put(taken(7))
    assert writer.close()
    assert errors == []
    loaded = files.load(files.folder_of(attempt.parent, 7, 0))
    expected = {} if edited else {"train.py": line_digests(script)}
    assert loaded.snapshot.lines == expected
