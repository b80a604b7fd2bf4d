"""`mothtrap upload` with stores that refuse and names that are taken."""

from __future__ import annotations

import os
import re
import sys
import time
from pathlib import Path

import pytest
from tests.s3_server import S3Server

from mothtrap.cli import main
from mothtrap.core.config import Config
from mothtrap.core.errors import ConfigError, RunExistsError, RunNotFoundError, StoreError
from mothtrap.core.runs import RunEnd
from mothtrap.reader.run import open_run
from mothtrap.session import joining, launch, sending, uploading
from mothtrap.store import layout, mirror, remote
from mothtrap.store.objects import open_store
from mothtrap.store.upload_queue import CollisionError, UploadQueue


def train(url: str, name: str | None = "seen", code: str = "pass") -> int:
    """Run a job that takes no time under its own launcher."""
    config = Config(runs_dir=url, upload_every_s=0.05)
    return launch.launch([sys.executable, "-c", code], config=config, name=name)


def spooled() -> list[str]:
    return [path.name for path in sending.spooled()]


def command(*words: str, code: int = 0) -> None:
    with pytest.raises(SystemExit) as ended:
        main([*words], prog_name="mothtrap")
    assert ended.value.code == code


def test_wrong_credentials_are_said_once_and_the_job_runs(
    s3_url: str, s3_server: S3Server, capfd: pytest.CaptureFixture[str]
) -> None:
    with s3_server.checking_credentials():
        assert train(s3_url, code="print('trained')") == 0
    out, err = capfd.readouterr()
    assert out == "trained\n"
    assert err.count("InvalidAccessKeyId") == 2  # at the start, and in the last message
    assert "the job continues" in err
    # run.json, end.json, source.json and the end of the output: the job makes no step. The size
    # depends on the uncommitted changes in this repository.
    assert re.search(r"4 files \(\d+\.\d MB\) of this run are not in", err)
    assert f"mothtrap upload {sending.spooled()[0]}" in err
    command("upload", "seen")
    assert open_run(f"{s3_url}/seen").end is not None
    assert spooled() == []


def test_a_missing_bucket_is_named(s3_url: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert train("s3://no-such-bucket/runs", code="print('trained')") == 0
    out, err = capfd.readouterr()
    assert out == "trained\n"
    assert "s3://no-such-bucket/runs/seen: there is no such bucket; create it, or correct" in err
    run = sending.spooled()[0]
    command("upload", str(run), "--to", s3_url)  # to another place after all
    assert open_run(f"{s3_url}/seen").id == "seen"


def test_a_store_that_is_down_from_the_start_to_the_end(
    s3_url: str,
    s3_server: S3Server,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(uploading, "GIVE_UP_S", 0.0)
    s3_server.stop()
    try:
        assert train(s3_url) == 0
        command("upload", code=2)
    finally:
        s3_server.start()
    err = capfd.readouterr().err
    assert "the job continues; its data is stored in" in err
    assert "`mothtrap upload" in err
    assert spooled() == ["seen"]
    command("upload")
    assert capfd.readouterr().out == f"seen was uploaded to {s3_url}/seen\n"
    assert spooled() == []
    command("upload")
    assert "nothing to upload" in capfd.readouterr().err


def test_a_job_does_not_wait_for_a_store_that_does_not_answer(
    s3_url: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """The store delays its response until the job has begun, or for a minute."""
    begun, claim = tmp_path / "begun", uploading.Uploader.claim
    seen: list[bool] = []

    def held_back(uploader: uploading.Uploader) -> None:
        end_s = time.monotonic() + 60
        while not begun.exists() and time.monotonic() < end_s:
            time.sleep(0.01)
        seen.append(begun.exists())
        claim(uploader)

    monkeypatch.setattr(uploading, "ANSWER_S", 0.1)
    monkeypatch.setattr(uploading.Uploader, "claim", held_back)
    assert train(s3_url, code=f"open({str(begun)!r}, 'w')") == 0
    assert seen == [True]
    err = capfd.readouterr().err
    assert f"{s3_url}/seen has not answered for 0 seconds; the job continues" in err
    assert open_run(f"{s3_url}/seen").end is not None
    assert spooled() == []


def test_what_was_asked_before_the_end_and_is_never_answered_is_not_asked_again(
    s3_url: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    asked: list[bool] = []

    def step(uploader: uploading.Uploader, *, final: bool) -> None:
        asked.append(final)
        uploader._ended.wait(60)
        raise StoreError("no answer")

    monkeypatch.setattr(uploading, "GIVE_UP_S", -1.0)
    monkeypatch.setattr(uploading.Uploader, "step", step)
    assert train(s3_url, code="import time; time.sleep(1)") == 0
    assert asked == [False]
    assert "are not in" in capfd.readouterr().err


def test_a_name_that_is_taken_in_the_store_is_refused_before_the_job_starts(
    s3_url: str, tmp_path: Path
) -> None:
    assert train(s3_url) == 0
    started = tmp_path / "started"
    with pytest.raises(RunExistsError, match=f"{s3_url}/seen already exists; choose another name"):
        train(s3_url, code=f"open({str(started)!r}, 'w')")
    assert not started.exists()
    assert spooled() == []


def test_of_two_launchers_without_a_name_both_get_one(
    s3_url: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(launch, "default_name", lambda _: "same")
    for node in ("a", "b"):  # two machines that share only the store
        monkeypatch.setenv("MOTHTRAP_CACHE", str(tmp_path / node))
        assert train(s3_url, name=None) == 0
    assert [open_run(f"{s3_url}/{name}").id for name in ("same", "same-2")] == ["same", "same-2"]


def test_a_run_of_that_name_that_appeared_meanwhile_is_left_alone(
    s3_url: str, s3_server: S3Server, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(uploading, "GIVE_UP_S", 0.0)
    s3_server.stop()
    try:
        train(s3_url, code="import sys; sys.exit(4)")
    finally:
        s3_server.start()
    with monkeypatch.context() as other:
        other.setenv("MOTHTRAP_CACHE", str(tmp_path / "b"))
        train(s3_url)
    (run,) = sending.spooled()
    with pytest.raises(CollisionError, match="--name"):
        sending.send(run)
    assert sending.send(run, name="seen-late") == f"{s3_url}/seen-late"
    codes = [open_run(f"{s3_url}/{name}").end for name in ("seen", "seen-late")]
    assert [end.exit_code for end in codes if end is not None] == [0, 4]


def test_a_run_is_sent_by_one_process_at_a_time(s3_url: str, tmp_path: Path) -> None:
    config = Config(runs_dir=str(tmp_path / "runs"))
    attempt = launch.create("here", ["x"], config, numbered=False)
    held = uploading.hold(attempt.parent)
    with pytest.raises(uploading.RunBusyError, match="another process is uploading"):
        sending.send(attempt.parent, s3_url)
    os.close(held)
    layout.write_end(attempt, RunEnd(exit_code=0, ended_s=1.0))
    with pytest.raises(ConfigError, match=r"pass one, e\.g\. mothtrap upload"):
        sending.send(attempt.parent)
    assert sending.send(attempt.parent, s3_url) == f"{s3_url}/here"
    assert layout.read_info(attempt) == open_run(f"{s3_url}/here").info  # it also stays here


def test_a_job_without_news_shows_that_it_lives(
    s3_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(uploading, "ALIVE_EVERY_S", 0.0)
    monkeypatch.setattr(mirror, "FETCH_EVERY_S", 0.0)
    attempt = launch.create("quiet", ["x"], Config(runs_dir=s3_url), numbered=False)
    uploader = uploading.Uploader(attempt.parent, f"{s3_url}/quiet", print, every_s=60)
    uploader.claim()
    found = open_run(f"{s3_url}/quiet")
    shown = found.path / "1" / "alive.json"
    assert not shown.exists()
    times = []
    for _ in range(2):
        uploader.step(final=False)
        found.refresh()
        times.append(shown.read_bytes())
        shown.write_bytes(b"")  # of a different size, so it is downloaded again
    assert len(times[1]) > 2
    uploader.release()


def test_while_the_store_is_down_an_open_run_stays_as_it_was(
    s3_url: str, s3_server: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mirror, "FETCH_EVERY_S", 0.0)
    train(s3_url)
    found = open_run(f"{s3_url}/seen")
    s3_server.stop()
    try:
        with pytest.warns(mirror.StaleRunWarning, match="the last known state of the run is shown"):
            found.refresh()
        found.refresh()  # reported once
        assert found.state == "finished"
        with pytest.raises(StoreError, match=r"cannot read 1/run\.json from"):
            open_run(f"{s3_url}/seen")
    finally:
        s3_server.start()
    found.refresh()


def test_ls_and_show_read_the_store(s3_url: str, capfd: pytest.CaptureFixture[str]) -> None:
    for name in ("one", "two"):
        train(s3_url, name=name)
    capfd.readouterr()
    command("ls", s3_url)
    lines = capfd.readouterr().out.splitlines()
    told = [(line.split()[0], "finished" in line.split()) for line in lines]
    assert told == [("one", True), ("two", True)]
    command("show", f"{s3_url}/one", "--format", "json")
    assert '"id":"one"' in capfd.readouterr().out
    command("show", "--runs-dir", s3_url, "--format", "json")  # the latest
    assert '"id":"two"' in capfd.readouterr().out
    with pytest.raises(RunNotFoundError, match=r"did you mean 'two'\?"):
        open_run("twoo", s3_url)


def test_a_run_in_the_store_is_gone_on_with(
    s3_url: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    config = Config(runs_dir=s3_url)
    for number in (3, 4):
        monkeypatch.setenv("MOTHTRAP_CACHE", str(tmp_path / str(number)))  # on another machine
        command = [sys.executable, "-c", f"raise SystemExit({number})"]
        assert launch.launch(command, config=config, name="seen", resume=True) == number
    found = open_run(f"{s3_url}/seen")
    assert found.attempts == 2
    assert found.end is not None
    assert found.end.exit_code == 4
    assert spooled() == []


def test_a_mirror_of_a_run_that_was_removed_is_not_taken_for_another(s3_url: str) -> None:
    train(s3_url)
    before = open_run(f"{s3_url}/seen")
    store = open_store(s3_url)
    for info in list(store.list("seen")):
        store.delete(info.key)
    train(s3_url, code="import sys; sys.exit(5)")
    after = open_run(f"{s3_url}/seen")
    assert before.end is not None
    assert after.end is not None
    assert (before.end.exit_code, after.end.exit_code) == (0, 5)


WORKER = """
import os, sys
from pathlib import Path
from mothtrap.store import layout
from mothtrap.store.worker_log import WorkerLog
from tests.reader.runs import closing
from tests.store.records import record
rank, folder = layout.claim_worker(Path(os.environ["MOTHTRAP_RUN_DIR"]), int(sys.argv[1]))
log = WorkerLog(folder)
log.append([*map(record, range(5)), closing(5)])
log.close()
"""


@pytest.mark.parametrize("place", ["store", pytest.param("shared folder", marks=pytest.mark.full)])
def test_launchers_of_two_machines_write_one_run(
    place: str, s3_url: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
    runs_dir = s3_url if place == "store" else str(tmp_path / "runs")
    config = Config(runs_dir=runs_dir)
    for rank in (0, 1):
        monkeypatch.setenv("MOTHTRAP_CACHE", str(tmp_path / str(rank)))
        command = [sys.executable, "-c", WORKER, str(rank)]
        assert launch.launch(command, config=config, name="seen", join=rank > 0) == 0
        assert spooled() == []
    found = open_run("seen", runs_dir)
    assert (found.workers, found.steps, found.state) == ((0, 1), 5, "finished")
    assert [len(list(found.records(rank))) for rank in (0, 1)] == [6, 6]
    assert found.damage == ()


def test_a_run_that_no_one_makes_cannot_be_joined(s3_url: str, tmp_path: Path) -> None:
    for runs_dir in (s3_url, str(tmp_path)):
        with pytest.raises(RunNotFoundError, match="start it on one machine without --join"):
            joining.join_run(runs_dir, "seen", wait_s=0)


def test_doctor_looks_into_the_store(s3_url: str, capfd: pytest.CaptureFixture[str]) -> None:
    command("doctor", "--runs-dir", s3_url)
    assert f"ok       object store: {s3_url} is readable" in capfd.readouterr().out
    command("doctor", "--runs-dir", "s3://no-such-bucket/runs", code=1)
    out = capfd.readouterr().out
    assert "problem  object store: cannot list" in out
    assert "there is no such bucket" in out


def test_an_odd_place_is_refused_before_anything_starts(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no object store has the scheme 's4'"):
        train("s4://bucket/runs", code=f"open({str(tmp_path / 'started')!r}, 'w')")
    assert not (tmp_path / "started").exists()


def test_the_place_of_spools_can_be_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MOTHTRAP_CACHE", "/elsewhere")
    one, two = remote.spool_folder("s3://b/runs"), remote.spool_folder("s3://b-runs")
    assert one.parent == Path("/elsewhere/spool")
    assert one.name.startswith("s3-b-runs-")
    assert one != two


def test_trouble_with_the_own_disk_is_no_end(
    s3_url: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    send, failures = UploadQueue.send, iter([OSError(28, "No space left on device")])

    def failing(self: UploadQueue, *, final: bool) -> int:
        for failure in failures:
            raise failure
        return send(self, final=final)

    monkeypatch.setattr(UploadQueue, "send", failing)
    assert train(s3_url) == 0
    assert "No space left on device; the job continues" in capfd.readouterr().err
    assert spooled() == []


def test_a_fault_of_our_own_leaves_the_run_where_it_is(
    s3_url: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    with monkeypatch.context() as broken:
        broken.setattr(UploadQueue, "send", lambda *_, **__: 1 / 0)
        assert train(s3_url) == 0
    assert "nothing more is sent to" in capfd.readouterr().err
    assert spooled() == ["seen"]
