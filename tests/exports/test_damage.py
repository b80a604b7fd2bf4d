"""Every format reports the unreadable parts of a run, and exports the rest."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.exports.stored import store

from mothtrap.exports import export_run
from mothtrap.reader.run import open_run


@pytest.mark.parametrize(
    ("form", "kind"),
    [
        ("tensorboard", "stats"),
        ("parquet", "stats"),
        ("chrome-trace", "scalars"),
        ("safetensors", "index"),
    ],
)
def test_a_damaged_segment_is_named(tmp_path: Path, form: str, kind: str) -> None:
    store(tmp_path / "digits")
    segment = tmp_path / "digits" / "1" / "w1" / f"{kind}-00000000.arrow"
    data = bytearray(segment.read_bytes())
    data[len(data) // 3 : len(data) // 3 + 200] = b"\xff" * 200
    segment.write_bytes(data)
    written = export_run(open_run(tmp_path / "digits"), form, tmp_path / "out")
    assert any(f"1/w1/{segment.name}" in sentence for sentence in written.left_out), (
        written.left_out
    )
    assert all(written.counts.values())


@pytest.mark.parametrize("form", ["tensorboard", "parquet", "chrome-trace", "safetensors"])
def test_of_a_whole_run_nothing_is_named(tmp_path: Path, form: str) -> None:
    written = export_run(store(tmp_path / "digits"), form, tmp_path / "out")
    assert written.left_out == ()
