"""Whatever bytes are in a run's files, readers end, raise nothing, and execute nothing.

In all of these tests unpickling raises.
"""

from __future__ import annotations

import json
import pickle
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.durability.small_run import STEPS, SmallRun, is_part_of, read, write
from tests.reader.runs import info
from tests.store.records import plain, record
from tests.store.test_raw_log import block

from mothtrap.core.errors import DamagedDataError
from mothtrap.reader.run import open_run
from mothtrap.store import layout
from mothtrap.store.finding_log import SCHEMA as FINDINGS
from mothtrap.store.finding_log import FindingReader
from mothtrap.store.raw_reading import RawIndex, RawRow, read_bytes
from mothtrap.store.segments import MAGIC, SegmentWriter
from mothtrap.store.tailing import SegmentReader
from mothtrap.store.wire import decode, encode
from mothtrap.store.worker_log import EVENTS
from mothtrap.store.worker_reading import EventReader, ReadState

KINDS = ("stats", "scalars", "events", "index", "raw", "findings")
DEEP = '{"a":' * 5000
"""Nested deeper than a parser can follow."""
FEW = settings(max_examples=60, suppress_health_check=list(HealthCheck))


class Unpickled(BaseException):
    """Raised by anything that would execute code from stored bytes; no reader catches it."""


def refuse(*_: object, **__: object) -> None:
    raise Unpickled


@pytest.fixture(scope="module", autouse=True)
def no_unpickling() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for name in ("load", "loads", "Unpickler"):
            patch.setattr(pickle, name, refuse)
        yield


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> SmallRun:
    return write(tmp_path_factory.mktemp("fuzz") / "small", sealed=True)


@pytest.fixture(scope="module")
def segments(whole: SmallRun) -> dict[str, bytes]:
    """One real segment of each kind."""
    return {kind: next(whole.path.rglob(f"{kind}-*0.arrow")).read_bytes() for kind in KINDS}


def read_all(folder: Path) -> None:
    """Let every reader read the contents of a folder."""
    state, findings, index = ReadState(folder), FindingReader(folder), RawIndex(folder)
    list(state.poll())
    findings.poll()
    for events in EventReader(folder).poll():
        for row in index.take(events):
            with suppress(DamagedDataError):
                read_bytes(folder, row)
    for reader in (state, findings, index):
        assert isinstance(reader.damage(ended=True), tuple)


def test_unpickling_would_be_seen() -> None:
    """The counterpart of all tests here."""
    for load in (pickle.load, pickle.loads, pickle.Unpickler):
        with pytest.raises(Unpickled):
            load(b"\x80\x04N.")


@given(data=st.binary(max_size=2000), prefix=st.sampled_from([b"", MAGIC, MAGIC + b"\xff" * 4]))
@settings(max_examples=200)
def test_any_bytes(data: bytes, prefix: bytes) -> None:
    with tempfile.TemporaryDirectory() as name:
        for kind in KINDS:
            (Path(name) / f"{kind}-00000000.arrow").write_bytes(prefix + data)
        read_all(Path(name))


@st.composite
def edits(draw: st.DrawFn) -> Callable[[bytes], bytes]:
    """A change of some bytes: overwritten, cut out, doubled, or moved."""
    kind = draw(st.sampled_from(["write", "cut", "double", "move"]))
    at, length = draw(st.floats(0, 1)), draw(st.integers(1, 64))
    junk, to = draw(st.binary(min_size=1, max_size=16)), draw(st.floats(0, 1))

    def edit(data: bytes) -> bytes:
        start = int(at * len(data))
        part, rest = data[start : start + length], data[:start] + data[start + length :]
        if kind == "write":
            return data[:start] + junk + data[start + len(junk) :]
        if kind == "cut":
            return rest
        if kind == "double":
            return data[:start] + part + data[start:]
        return rest[: int(to * len(rest))] + part + rest[int(to * len(rest)) :]

    return edit


@given(changes=st.lists(edits(), min_size=1, max_size=4), victim=st.floats(0, 0.999))
@FEW
def test_any_edit_of_a_real_run(
    changes: list[Callable[[bytes], bytes]], victim: float, whole: SmallRun
) -> None:
    """Edited files never give a value that was not written."""
    paths = sorted(path for path in whole.path.rglob("*") if path.is_file())
    path = paths[int(victim * len(paths))]
    written = path.read_bytes()
    data = written
    for change in changes:
        data = change(data)
    path.write_bytes(data)
    try:
        assert is_part_of(read(whole.path), whole.found)
        run = open_run(whole.path)
        assert run.steps <= 10
        assert isinstance(run.damage, tuple)
    finally:
        path.write_bytes(written)


@given(names=st.permutations(KINDS))
@settings(max_examples=20)
def test_segments_under_the_names_of_others(names: list[str], segments: dict[str, bytes]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        for name, kind in zip(names, KINDS, strict=True):
            (Path(folder) / f"{name}-00000000.arrow").write_bytes(segments[kind])
        read_all(Path(folder))


@st.composite
def rows(draw: st.DrawFn) -> pa.RecordBatch:
    """Return rows of events with valid checksums and nonsensical contents."""
    numbers = st.integers(-(2**63), 2**63 - 1)
    text = st.one_of(
        st.text(st.characters(exclude_categories=["Cs"]), max_size=20),
        st.recursive(
            st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(),
            lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner),
            max_leaves=6,
        ).map(lambda value: json.dumps(value)),
        st.sampled_from(
            [
                '{"wall_s":1,"optimizers":[],"skipped":false,"tensors":9999999999,"width":4096,'
                '"scalars":1,"events":0,"raw":99}',
                '{"wall_s":1,"optimizers":[],"skipped":false,"tensors":-1,"width":1,"scalars":1,'
                '"events":0}',
                '{"id":16777215,"tensor":{"kind":"weight","name":"x"}}',
                '{"id":99999999999999,"tensor":{"kind":"weight","name":"x"}}',
                '{"type":"LossCall","step":-1,"operation":"x"}',
                DEEP,
            ]
        ),
    )
    size = draw(st.integers(0, 4))
    columns = [
        pa.array([draw(numbers) for _ in range(size)], pa.int64()),
        pa.array([draw(numbers) for _ in range(size)], pa.int64()),
        pa.array([draw(st.sampled_from(["train", "eval", "x", ""])) for _ in range(size)]),
        pa.array([draw(numbers) for _ in range(size)], pa.int64()),
        pa.array([draw(st.sampled_from(["step", "defined", "Blind", ""])) for _ in range(size)]),
        pa.array([draw(text) for _ in range(size)]),
    ]
    arrays = [c.cast(f.type) for c, f in zip(columns, EVENTS, strict=True)]
    return pa.record_batch(arrays, schema=EVENTS)


@given(batches=st.lists(rows(), min_size=1, max_size=4))
def test_rows_that_make_no_sense(batches: list[pa.RecordBatch]) -> None:
    with tempfile.TemporaryDirectory() as name:
        attempt = Path(name) / "run" / "1"
        (attempt / "w0").mkdir(parents=True)
        (attempt / "run.json").write_text("{}")
        writer = SegmentWriter(attempt / "w0" / "events-00000000.arrow", EVENTS)
        for batch in batches:
            writer.append(batch)
        writer.seal()
        read_all(attempt / "w0")
        run = open_run(attempt.parent)
        run.scalars()
        assert isinstance(run.damage, tuple)


@given(
    segment=st.integers(-(2**63), 2**63 - 1),
    offset=st.integers(-(2**63), 2**63 - 1),
    size=st.integers(-(2**63), 2**63 - 1),
)
def test_places_that_make_no_sense(segment: int, offset: int, size: int, whole: SmallRun) -> None:
    folder = whole.path / "1" / "w0"
    events = next(iter(EventReader(folder).poll()))
    row = RawIndex(folder).take(events)[0]
    values = {name: getattr(row, name) for name in RawRow.__dataclass_fields__}
    wrong = RawRow(**(values | {"segment": segment, "offset": offset, "size": size}))
    if (segment, offset, size) != (row.segment, row.offset, row.size):
        with pytest.raises(DamagedDataError):
            read_bytes(folder, wrong)


@given(data=st.binary(max_size=300))
@settings(max_examples=200)
def test_descriptions_of_any_bytes(data: bytes) -> None:
    with tempfile.TemporaryDirectory() as name:
        for file, reader in (("run.json", layout.read_info), ("end.json", layout.read_end)):
            (Path(name) / file).write_bytes(data)
            with suppress(DamagedDataError):
                reader(Path(name))


def test_rows_that_are_nested_too_deeply_are_damage(tmp_path: Path) -> None:
    for kind in ("step", "defined", "Blind"):
        folder = layout.worker_folder(layout.create_run(tmp_path / kind, info()), 0)
        folder.mkdir()
        values = {"record": 0, "step": 0, "mode": "train", "mode_step": 0, "type": kind}
        values["json"] = DEEP
        for name, schema in (("events", EVENTS), ("findings", FINDINGS)):
            row = values if name == "events" else values | {"type": "finding", "code": ""}
            given = {column: row[column] for column in schema.names}
            writer = SegmentWriter(folder / f"{name}-00000000.arrow", schema)
            writer.append(pa.RecordBatch.from_pylist([given], schema=schema))
            writer.seal()
        read_all(folder)
        run = open_run(tmp_path / kind)
        assert run.steps == 0
        assert run.damage or kind != "step"  # facts of a step that never arrived are not inspected


@pytest.mark.parametrize("file", ["run.json", "end.json", "source.json", "w0/ledger.json"])
def test_a_description_that_is_nested_too_deeply_is_damage(file: str, tmp_path: Path) -> None:
    run = write(tmp_path / "small", sealed=True).path
    (run / "1" / file).write_text(DEEP)
    opened = open_run(run)
    assert opened.steps == STEPS
    if file in ("run.json", "end.json"):
        assert any(file in text for text in opened.damage)
    else:
        with pytest.raises(DamagedDataError, match=file):
            opened.ledger() if "ledger" in file else opened.source


def test_a_schema_that_asks_for_unpickling_is_data(tmp_path: Path) -> None:
    """Arrow once unpickled the extension type `arrow.py_extension_type` of a schema."""
    bomb = {
        b"ARROW:extension:name": b"arrow.py_extension_type",
        b"ARROW:extension:metadata": b"cos\nsystem\n(S'false'\ntR.",
    }
    field = pa.field("a", pa.int64(), metadata=bomb)
    path = tmp_path / "events-00000000.arrow"
    writer = SegmentWriter(path, pa.schema([field], metadata=bomb))
    writer.append(pa.record_batch([pa.array([1, 2])], schema=writer.schema))
    writer.seal()
    SegmentReader(path).poll()
    read_all(tmp_path)


def test_a_whole_run_is_read_without_unpickling(whole: SmallRun) -> None:
    assert read(whole.path).damage == ()
    assert open_run(whole.path).stats("gradient")["l2"].present_ST.any()


def test_a_record_is_handed_over_without_pickling() -> None:
    item = record(0, raw=(block(np.arange(3.0)),))
    assert plain(decode(np.concatenate(encode(item)))) == plain(item)
