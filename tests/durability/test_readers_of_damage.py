"""Every reader reports every kind of damage to every kind of file, and none hangs or fails."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner
from tests.durability.small_run import STEPS, steps_of, write
from tests.snapshot import samples

from mothtrap.cli import main
from mothtrap.core.facts.record import ItemLogged
from mothtrap.core.ledger import Ledger, Source, SourceTexts
from mothtrap.core.runs import RunEnd
from mothtrap.reader.run import open_run
from mothtrap.reader.runs import Runs
from mothtrap.snapshot import format as snapshots
from mothtrap.store import layout
from mothtrap.store.labels import put_label
from mothtrap.store.machine_log import MachineLog, Reading
from mothtrap.store.output_log import OutputLog
from mothtrap.store.time_log import TimeLog
from mothtrap.store.worker_log import WorkerLog

ITEM = b"a text"
NAME = "damaged"


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that has a file of every kind."""
    run = write(tmp_path_factory.mktemp("runs") / "whole", sealed=True).path
    attempt = run / "1"
    worker = layout.worker_folder(attempt, 0)
    OutputLog(attempt).append(b"a line\n")
    machine = MachineLog(attempt)
    machine.append([Reading(float(n), "processor", "", 0.5) for n in range(5)])
    machine.close()
    timed = TimeLog(worker, "profile")
    timed.append([1.0, 2.0], {"value": [1.0, 2.0]})
    timed.close()
    ledger = Ledger(created_s=1e9, rank=0, framework="torch", arguments=("train.py",), cwd="/tmp")
    layout.write_ledger(worker, ledger)
    layout.write_source(attempt, Source(commit="abc"))
    layout.write_source_texts(worker, SourceTexts(files={"train.py": "import torch\n" * 20}))
    _log_item(worker)
    label = put_label(run, "tag", "good")
    assert label.text == "good"
    wanted = msgspec.structs.replace(samples.snapshot(), worker=0, step=3)
    snapshots.write(snapshots.folder_of(run, 3, 0), wanted, samples.STATE, samples.STEPS)
    assert open_run(run).damage == ()
    end = RunEnd(exit_code=0, ended_s=2e9, files=layout.stored_files(attempt))
    layout.write_end(attempt, end)
    assert open_run(run).damage == ()
    return run


def _log_item(worker: Path) -> None:
    (worker / "record").mkdir()
    (worker / "record" / "000000.txt").write_bytes(ITEM)
    digest = hashlib.sha256(ITEM).hexdigest()
    item = ItemLogged(
        step=STEPS, name="note", kind="text", file="000000.txt", size_bytes=6, digest=digest
    )
    log = WorkerLog(worker)
    log.append([replace(steps_of(0)[-1], observations=(item,))])
    log.close()


@pytest.fixture
def run(whole: Path, tmp_path: Path) -> Path:
    """Return a copy of it to be damaged."""
    return Path(shutil.copytree(whole, tmp_path / "runs" / NAME))


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def zero(path: Path) -> None:
    data = bytearray(path.read_bytes())
    middle = len(data) // 2
    data[middle : middle + 64] = bytes(len(data[middle : middle + 64]))
    path.write_bytes(data)


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def random_bytes(path: Path) -> None:
    path.write_bytes(bytes(range(1, 200)) * 3)


def _in_place_of(make: Callable[[Path], object]) -> Callable[[Path], None]:
    def harm(path: Path) -> None:
        path.unlink()
        make(path)

    return harm


fifo = _in_place_of(os.mkfifo)
folder = _in_place_of(Path.mkdir)
device = _in_place_of(lambda path: path.symlink_to("/dev/zero"))
terminal = _in_place_of(lambda path: path.symlink_to("/dev/tty"))
to_nothing = _in_place_of(lambda path: path.symlink_to("/nonexistent"))
to_itself = _in_place_of(lambda path: path.symlink_to(path.name))
elsewhere = _in_place_of(lambda path: path.symlink_to("/etc/passwd"))


def sparse(path: Path) -> None:
    os.truncate(path, 2 << 30)


CHANGED = (flip, zero, cut, random_bytes)
SPECIAL = (fifo, folder, device, terminal, to_nothing, to_itself, elsewhere)
CHECKED = {
    "run.json": "1/run.json",
    "end.json": "1/end.json",
    "source.json": "1/source.json",
    "ledger": "1/w0/ledger.json",
    "sources": "1/w0/sources.json",
    "events": "1/w0/events-00000000.arrow",
    "scalars": "1/w0/scalars-00000000.arrow",
    "statistics": "1/w0/stats-00000000.arrow",
    "index": "1/w0/index-00000000.arrow",
    "tensors": "1/w0/raw-00000000.arrow",
    "timed": "1/w0/time_profile-00000000.arrow",
    "findings": "1/m0/findings-00000000.arrow",
    "machine": "1/machine/time_machine-00000000.arrow",
    "item": "1/w0/record/000000.txt",
    "snapshot": "snapshots/00000003/w0/snapshot.json",
    "state": "snapshots/00000003/w0/state.safetensors",
    "batches": "snapshots/00000003/w0/steps.safetensors",
}


@pytest.mark.parametrize("file", CHECKED.values(), ids=CHECKED)
def test_damage_to_a_file_is_told(file: str, run: Path) -> None:
    path, saved = run / file, (run / file).read_bytes()
    # Not every byte of a file of tensors belongs to a value.
    changed = (cut, random_bytes) if file == CHECKED["tensors"] else CHANGED
    for harm in (*changed, *SPECIAL):
        harm(path)
        opened = open_run(run)
        assert opened.damage, f"{harm.__name__} of {file}"
        assert "damaged" in opened.verdict
        assert opened.state == "finished"
        if path.is_dir() and not path.is_symlink():
            path.rmdir()
        else:
            path.unlink()
        path.write_bytes(saved)
    assert open_run(run).damage == ()


@pytest.mark.parametrize(
    "file", [CHECKED[n] for n in ("events", "scalars", "statistics", "findings", "item", "state")]
)
def test_a_file_that_is_gone_or_huge_is_told(file: str, run: Path) -> None:
    (run / file).rename(run.parent / "kept")
    assert open_run(run).damage
    shutil.copyfile(run.parent / "kept", run / file)
    sparse(run / file)
    assert open_run(run).damage


@pytest.mark.parametrize("file", [f for f in CHECKED.values() if f.startswith("1/")])
def test_a_file_that_is_removed_or_emptied_after_the_end_is_told(file: str, run: Path) -> None:
    if file == CHECKED["end.json"]:
        pytest.skip("the list of files is in it")
    (run / file).write_bytes(b"")
    emptied = open_run(run).damage
    (run / file).unlink()
    gone = open_run(run).damage
    name = file.removeprefix("1/") if "record/" not in file else "record"
    assert [text for text in emptied if name in text]
    assert [text for text in gone if name in text]


def test_special_files_among_output_labels_and_messages_are_told(run: Path) -> None:
    (run / "alerts").mkdir()
    label = next((run / "labels").iterdir())
    output = next((run / "1").glob("output-*.log"))
    for path in (label, output, run / "alerts" / "journal.jsonl"):
        path.unlink(missing_ok=True)
        os.mkfifo(path)
        damage = open_run(run).damage
        assert [text for text in damage if path.name in text], path
        path.unlink()
    output.symlink_to("/etc/passwd")
    assert [text for text in open_run(run).damage if output.name in text]


READERS = {
    "text": ["show", NAME],
    "JSON": ["show", NAME, "--format", "json", "--all"],
    "a few lines": ["show", NAME, "--format", "concise"],
    "list": ["ls"],
    "list as JSON": ["ls", "--format", "json"],
    "list as CSV": ["ls", "--format", "csv"],
    "screen": ["top", NAME, "--once"],
    "analysis": ["analyze", NAME],
    "difference": ["diff", NAME, NAME],
    "Parquet": ["export", NAME, "--to", "parquet", "-o", "tables"],
    "TensorBoard": ["export", NAME, "--to", "tensorboard", "-o", "board"],
    "HTML": ["report", NAME, "-o", "-", "--format", "html"],
    "Markdown": ["report", NAME, "-o", "-", "--format", "markdown"],
    "SARIF": ["report", NAME, "-o", "-", "--format", "sarif"],
    "JUnit": ["report", NAME, "-o", "-", "--format", "junit"],
    "GitHub": ["report", NAME, "-o", "-", "--format", "github"],
    "invariants": ["learn", NAME, "-o", "learned.toml"],
    "samples": ["samples", NAME, "--step", "0"],
    "doctor": ["doctor", NAME],
}


@pytest.mark.parametrize("harmed", ["scalars", "tensors", "state"])
def test_every_reader_tells_it(
    harmed: str, run: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    cut(run / CHECKED[harmed])
    silent = []
    for name, words in READERS.items():
        result = CliRunner().invoke(main, words)
        assert isinstance(result.exception, SystemExit | None), (name, result.exception)
        if "damage" not in result.output:
            silent.append(f"{name}: {result.output[-300:]}")
    assert not silent
    first = CliRunner().invoke(main, ["show", NAME]).output.splitlines()[0]
    assert "damaged" in first or "Nothing wrong" not in first


def test_a_list_of_runs_tells_it(run: Path) -> None:
    zero(run / CHECKED["scalars"])
    (row,) = Runs([open_run(run)]).rows()
    assert "damaged" in str(row["verdict"])


def test_the_page_tells_it(run: Path) -> None:
    pytest.importorskip("starlette", reason="the extra web is not installed")
    from mothtrap.web.answers import run_answer
    from mothtrap.web.opened import OpenRun

    zero(run / CHECKED["scalars"])
    answer = run_answer(OpenRun(run), NAME, 2e9, lambda running: ())
    assert "damaged" in answer.verdict
    assert any("scalars-00000000" in note for note in answer.notes)


def test_a_copied_worker_is_no_worker(run: Path) -> None:
    shutil.copytree(run / "1" / "w0", run / "1" / "w7")
    opened = open_run(run)
    assert opened.workers == (0, 1)
    assert opened.state == "finished"
    assert [text for text in opened.damage if "w7" in text and "copy of w0" in text]


def test_a_folder_of_a_worker_with_files_of_others_is_no_worker(run: Path) -> None:
    for source in ("m0", "machine"):
        shutil.copytree(run / "1" / source, run / "1" / "w7")
        opened = open_run(run)
        assert opened.workers == (0, 1)
        assert [text for text in opened.damage if "w7" in text]
        shutil.rmtree(run / "1" / "w7")


def test_a_copied_attempt_and_snapshot_are_told(run: Path) -> None:
    shutil.copytree(run / "1", run / "2")
    shutil.copytree(run / "snapshots" / "00000003" / "w0", run / "snapshots" / "00000003" / "w4")
    opened = open_run(run)
    assert opened.attempts == 1
    for folder in ("2 is", "00000003/w4"):
        assert [text for text in opened.damage if folder in text], folder


def test_times_that_no_clock_shows_are_damage(run: Path) -> None:
    for file, name in (("run.json", "created_s"), ("end.json", "ended_s")):
        for value in (1e300, -1e300, "NaN", 2**70):
            fields = msgspec.json.decode((run / "1" / file).read_bytes(), type=dict[str, object])
            fields.pop("checksum", None)
            path = run / "1" / file
            saved = path.read_bytes()
            path.write_bytes(msgspec.json.encode(fields | {name: value}))
            assert [text for text in open_run(run).damage if file in text]
            path.write_bytes(saved)
