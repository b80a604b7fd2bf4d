"""Tables indexed by time: written, read while they grow, sent, and ignored by windows."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from tests.reader.runs import info, write_worker
from tests.store.records import record

from mothtrap.core.errors import UnknownNameError
from mothtrap.core.needs import Need
from mothtrap.reader.run import open_run
from mothtrap.reader.series.windows import WindowBuilder
from mothtrap.store import layout
from mothtrap.store.mirror import open_mirror
from mothtrap.store.time_log import TimeLog, TimeReader, timed_tables
from mothtrap.store.upload_queue import UploadQueue
from mothtrap.store.worker_reading import read_records


def a_run(folder: Path) -> Path:
    """Create a run with two steps; return the folder of its worker."""
    attempt = layout.create_run(folder, info())
    write_worker(attempt, record(0), record(1))
    return layout.worker_folder(attempt, 0)


def test_rows_come_back_as_they_were(tmp_path: Path) -> None:
    log = TimeLog(tmp_path, "machine")
    log.append([1.5, 2.5], {"cpu": [0.25, math.nan]}, {"device": ["cuda:0", "é"]})
    (rows,) = TimeReader(tmp_path, "machine").poll()
    assert rows.time_N.tolist() == [1.5, 2.5]
    np.testing.assert_equal(rows.numbers["cpu"], [0.25, math.nan])
    assert rows.texts == {"device": ["cuda:0", "é"]}
    assert timed_tables(tmp_path) == ("machine",)


def test_it_is_read_while_it_grows(tmp_path: Path) -> None:
    log, reader = TimeLog(tmp_path, "machine", roll_bytes=1), TimeReader(tmp_path, "machine")
    assert reader.poll() == []
    log.append([1.0], {"cpu": [0.5]})
    log.append([2.0], {"cpu": [0.6]})
    assert [rows.time_N.tolist() for rows in reader.poll()] == [[1.0], [2.0]]
    log.append([3.0], {"cpu": [0.7], "gpu": [0.9]})
    log.close()
    (rows,) = reader.poll()
    assert sorted(rows.numbers) == ["cpu", "gpu"]
    assert reader.damage(ended=True) == ()


def test_a_torn_end_is_damage_once_the_writer_is_gone(tmp_path: Path) -> None:
    log = TimeLog(tmp_path, "machine")
    log.append([1.0], {"cpu": [0.5]})
    log.append([2.0], {"cpu": [0.5]})
    path = layout.segment_path(tmp_path, "time_machine", 0)
    path.write_bytes(path.read_bytes()[:-8])
    reader = TimeReader(tmp_path, "machine")
    assert [rows.time_N.tolist() for rows in reader.poll()] == [[1.0]]
    assert reader.damage() == ()
    (said,) = reader.damage(ended=True)
    assert "time_machine-00000000.arrow" in said


@pytest.mark.parametrize(
    "columns", [{"cpu": [1.0]}, {"time_s": [1.0, 2.0]}], ids=["length", "name"]
)
def test_columns_that_do_not_fit_are_refused(tmp_path: Path, columns: dict) -> None:
    with pytest.raises(ValueError, match="expected different names and equal lengths"):
        TimeLog(tmp_path, "machine").append([1.0, 2.0], columns)


def test_steps_and_windows_do_not_see_it(tmp_path: Path) -> None:
    worker = a_run(tmp_path / "run")
    before = read_records(worker)
    TimeLog(worker, "machine").append([1.0], {"cpu": [0.5]})
    after = read_records(worker)
    assert [r.key for r in after] == [r.key for r in before]
    builder = WindowBuilder([Need(kinds=("gradient",), statistics=("l2",))])
    for item in after:
        builder.feed(item)
    assert "cpu" not in {series.name for series in builder.window(0.0).series}


def test_a_run_gives_its_rows_by_time(tmp_path: Path) -> None:
    worker = a_run(tmp_path / "run")
    log = TimeLog(worker, "machine")
    log.append([3.0, 1.0], {"cpu": [0.3, 0.1]}, {"host": ["c", "a"]})
    log.append([2.0], {"gpu": [0.9]})
    rows = open_run(tmp_path / "run").timed("machine")
    assert rows.time_N.tolist() == [1.0, 2.0, 3.0]
    np.testing.assert_equal(rows.numbers["cpu"], [0.1, math.nan, 0.3])
    np.testing.assert_equal(rows.numbers["gpu"], [math.nan, 0.9, math.nan])
    assert rows.texts["host"] == ["a", "", "c"]
    assert open_run(tmp_path / "run").damage == ()


def test_an_unknown_table_names_the_nearest(tmp_path: Path) -> None:
    worker = a_run(tmp_path / "run")
    with pytest.raises(UnknownNameError, match="it has none"):
        open_run(tmp_path / "run").timed("machine")
    TimeLog(worker, "machine").append([1.0], {"cpu": [0.5]})
    with pytest.raises(UnknownNameError, match="did you mean 'machine'"):
        open_run(tmp_path / "run").timed("machines")


def test_it_is_sent_and_fetched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    worker = a_run(tmp_path / "run")
    for name in ("machine", "profile"):
        log = TimeLog(worker, name)
        log.append([1.0], {"cpu": [0.5]})
        log.close()
    (tmp_path / "remote").mkdir()
    url = (tmp_path / "remote" / "run").as_uri()
    UploadQueue(tmp_path / "run", url).send(final=True)
    mirror = open_mirror(url)
    fetched = layout.worker_folder(layout.attempt_folder(mirror.folder, 1), 0)
    assert timed_tables(fetched) == ("machine", "profile")
    assert open_run(mirror.folder).timed("profile").numbers["cpu"].tolist() == [0.5]
    mirror.sync()
    assert timed_tables(fetched) == ("machine", "profile")
