"""Order and time of uploads to a store that may fail at any moment."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from tests.reader.runs import info
from tests.store.records import plain, record

from mothtrap.core.control_requests import CaptureRequest
from mothtrap.core.errors import StoreError
from mothtrap.core.records import StepRecord
from mothtrap.core.runs import RunEnd
from mothtrap.store import layout
from mothtrap.store.backends.local import LocalStore
from mothtrap.store.control_inbox import send
from mothtrap.store.mirror import Mirror, open_mirror
from mothtrap.store.upload_queue import CollisionError, UploadQueue
from mothtrap.store.worker_log import WorkerLog
from mothtrap.store.worker_reading import ReadState, read_records

AT_ONCE_S = 1e-9


@pytest.fixture
def url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("MOTHTRAP_CACHE", str(tmp_path / "cache"))
    return (tmp_path / "store" / "x").as_uri()


def there(tmp_path: Path) -> list[str]:
    top = tmp_path / "store" / "x"
    return sorted(path.relative_to(top).as_posix() for path in top.rglob("*") if path.is_file())


def begin(tmp_path: Path) -> tuple[Path, Path]:
    run = tmp_path / "spool" / "x"
    attempt = layout.create_run(run, info())
    return run, layout.claim_worker(attempt)[1]


def test_only_what_is_sealed_travels_and_the_rest_at_the_end(tmp_path: Path, url: str) -> None:
    run, worker = begin(tmp_path)
    log = WorkerLog(worker)
    log.append([record(0)])
    queue = UploadQueue(run, url)
    assert queue.send(final=False) == 1
    assert there(tmp_path) == ["1/run.json"]
    log.close()
    assert queue.send(final=False) == 3
    log.append([record(1)])  # never sealed: its writer was killed
    layout.write_end(run / "1", RunEnd(exit_code=-9, ended_s=1.0))
    assert queue.send(final=False) == 0
    assert queue.left()[-1].name == "end.json"
    queue.send(final=True)
    assert queue.left() == []
    assert "1/end.json" in there(tmp_path)
    assert [plain(r) for r in read_records(tmp_path / "store/x/1/w0")] == [
        plain(record(0)),
        plain(record(1)),
    ]


def test_what_has_a_meaning_here_only_stays_here(tmp_path: Path, url: str) -> None:
    run, _ = begin(tmp_path)
    for name in ("remote.json", "1/.run.json.12", "1/w0/writer.json"):
        (run / name).write_text("{}")
    UploadQueue(run, url).send(final=True)
    assert there(tmp_path) == ["1/run.json"]


def test_requests_are_sent_while_the_job_runs(tmp_path: Path, url: str) -> None:
    run, _ = begin(tmp_path)
    request = send(run, CaptureRequest(id="1", attempt=1))
    UploadQueue(run, url).send(final=False)
    assert (tmp_path / "store/x/control/1.json").read_bytes() == request.read_bytes()


def test_tensors_leave_this_machine_when_they_are_there(tmp_path: Path, url: str) -> None:
    run, worker = begin(tmp_path)
    for name in ("raw-00000000.arrow", "stats-00000000.arrow"):
        (worker / name).write_bytes(b"x")
    UploadQueue(run, url, keep_raw=True).send(final=True)
    assert (worker / "raw-00000000.arrow").exists()
    (tmp_path / "store/x/1/w0/raw-00000000.arrow").unlink()
    (run / next(p.name for p in run.iterdir() if p.name.startswith(".sent"))).unlink()
    UploadQueue(run, url).send(final=True)
    assert [path.name for path in worker.iterdir()] == ["stats-00000000.arrow"]


def test_another_process_goes_on_where_the_first_has_stopped(tmp_path: Path, url: str) -> None:
    run, worker = begin(tmp_path)
    log = WorkerLog(worker, roll_s=AT_ONCE_S)
    log.append([record(0)])
    UploadQueue(run, url).send(final=False)
    log.append([record(1)])
    assert UploadQueue(run, url).send(final=False) == 3


def test_a_segment_of_another_is_not_taken_for_ours(tmp_path: Path, url: str) -> None:
    run, worker = begin(tmp_path)
    WorkerLog(worker, roll_s=AT_ONCE_S).append([record(0)])
    theirs = tmp_path / "store/x/1/w0/events-00000000.arrow"
    theirs.parent.mkdir(parents=True)
    theirs.write_bytes(b"theirs")
    with pytest.raises(CollisionError, match=r"another job has written it; .*--name"):
        UploadQueue(run, url).send(final=False)
    assert theirs.read_bytes() == b"theirs"


def test_an_answer_that_was_lost_is_not_taken_for_another(
    tmp_path: Path, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, worker = begin(tmp_path)
    WorkerLog(worker, roll_s=AT_ONCE_S).append([record(0)])
    put = LocalStore.put_if_absent

    def put_and_lose_the_answer(self: LocalStore, key: str, data: bytes | Path) -> None:
        put(self, key, data)
        raise StoreError("the connection broke")

    with monkeypatch.context() as broken:
        broken.setattr(LocalStore, "put_if_absent", put_and_lose_the_answer)
        with pytest.raises(StoreError, match="the connection broke"):
            UploadQueue(run, url).send(final=False)
    UploadQueue(run, url).send(final=True)
    assert len(there(tmp_path)) == 4


@pytest.mark.parametrize("seed", [0, 2])
def test_whatever_fails_a_reader_never_sees_half_a_step(
    seed: int, tmp_path: Path, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some requests fail at random; the mirror is read after every attempt to send."""
    run, worker = begin(tmp_path)
    UploadQueue(run, url).send(final=False)
    mirror = open_mirror(url)
    state = ReadState(mirror.folder / "1" / "w0")
    chance = random.Random(seed)
    working = {
        name: getattr(LocalStore, name) for name in ("put_if_absent", "get", "fetch", "list")
    }
    for name, method in working.items():
        monkeypatch.setattr(LocalStore, name, failing(method, chance))
    log, queue = WorkerLog(worker, roll_bytes=3000, roll_s=AT_ONCE_S), UploadQueue(run, url)
    got: list[StepRecord] = []
    failures = 0
    for step in range(40):
        log.append([record(step)])
        for act in (lambda: queue.send(final=False), lambda: fetch(mirror, state, got)):
            try:
                act()
            except StoreError:
                failures += 1
    for name, method in working.items():
        monkeypatch.setattr(LocalStore, name, method)
    assert 10 < failures < 70
    queue.send(final=True)
    fetch(mirror, state, got)
    assert [plain(r) for r in got] == [plain(record(step)) for step in range(40)]
    assert state.damage(ended=True) == ()


def failing(method, chance: random.Random):  # type: ignore[no-untyped-def]
    def fail(self, *arguments):  # type: ignore[no-untyped-def]
        if chance.random() < 0.15:
            raise StoreError("a hiccup")
        return method(self, *arguments)

    return fail


def fetch(mirror: Mirror, state: ReadState, got: list[StepRecord]) -> None:
    try:
        mirror.sync()
    finally:
        got += state.poll()
