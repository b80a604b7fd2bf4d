"""Mirrors stay within a size limit: the least recently used go, but none that is being read."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from tests.reader.runs import DEAD_PID, closing, info, write_worker
from tests.store.records import record
from tests.store.test_raw_log import block

from mothtrap.core.config import load_config
from mothtrap.core.errors import ConfigError
from mothtrap.reader.run import Run, open_run
from mothtrap.store import layout, mirror_cache
from mothtrap.store.mirror_cache import Use, configured_bytes, keep_within
from mothtrap.store.objects import join
from mothtrap.store.remote import Remote, mirrors_folder, spool_folder, write_remote
from mothtrap.store.retention import GONE, measure

NAMES = ("a", "b", "c")
OPENS = """
import sys
from mothtrap.reader.run import open_run
run = open_run(sys.argv[1])
print("open", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return a store with runs that hold a tensor each; nothing is downloaded yet."""
    monkeypatch.setenv("MOTHTRAP_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(mirror_cache, "FRESH_S", 0.0)
    for name in NAMES:
        attempt = layout.create_run(tmp_path / "store" / name, info(id=name, pid=DEAD_PID))
        whole = block(np.arange(9.0))
        write_worker(attempt, record(0, raw=(whole,)), closing(1))
    return (tmp_path / "store").as_uri()


@pytest.fixture
def fetched(url: str) -> Callable[..., list[Path]]:
    """Download runs, the first named used least recently, and return their mirrors."""

    def fetch(*names: str) -> list[Path]:
        mirrors = [open_run(join(url, name)).path for name in names]
        for second, path in enumerate(mirrors):
            os.utime(path / ".in-use", (second, second))
        return mirrors

    return fetch


def size(*mirrors: Path) -> int:
    return sum(measure(path).size_bytes for path in mirrors)


def losses(run: Run) -> list[float]:
    found: list[float] = run.scalars("loss")[0].values_S.tolist()
    return found


def test_those_used_least_recently_go_until_the_others_fit(
    fetched: Callable[..., list[Path]],
) -> None:
    b, a, c = fetched("b", "a", "c")
    assert keep_within(size(a, b, c)) == []
    assert keep_within(size(a, c)) == [b]
    assert (b.parent.exists(), a.exists(), c.exists()) == (False, True, True)
    assert keep_within(size(c) - 1) == [a, c]
    assert list(mirrors_folder().iterdir()) == []


def test_reading_a_run_again_makes_it_a_recent_one(
    fetched: Callable[..., list[Path]], url: str
) -> None:
    a, b = fetched("a", "b")
    open_run(join(url, "a"))
    assert keep_within(size(a)) == [b]


def test_a_run_that_was_removed_is_fetched_again(
    fetched: Callable[..., list[Path]], url: str
) -> None:
    (mirror,) = fetched("a")
    before = losses(open_run(join(url, "a")))
    assert keep_within(0) == [mirror]
    assert losses(open_run(join(url, "a"))) == before


def test_a_mirror_that_is_read_stays_as_long_as_anything_reads_it(
    fetched: Callable[..., list[Path]], url: str
) -> None:
    fetched("a")
    run = open_run(join(url, "a"))
    assert keep_within(0) == []
    part = run.range(0, 1)
    tensor = run.tensors()[0]
    del run
    assert keep_within(0) == []
    del part
    gc.collect()
    assert keep_within(0) == []
    assert tensor.at(0).tolist() == np.arange(9.0).tolist()
    mirror = next(mirrors_folder().glob("*/a"))
    del tensor
    gc.collect()
    assert keep_within(0) == [mirror]


def test_a_mirror_that_another_process_reads_stays_until_it_is_killed(
    fetched: Callable[..., list[Path]], url: str
) -> None:
    (mirror,) = fetched("a")
    with subprocess.Popen(
        [sys.executable, "-c", OPENS, join(url, "a")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as reader:
        assert reader.stdout is not None
        assert reader.stdout.readline() == "open\n"
        assert keep_within(0) == []
        reader.kill()
        reader.wait()
        assert keep_within(0) == [mirror]


def test_a_mirror_that_was_used_a_moment_ago_stays(
    fetched: Callable[..., list[Path]], url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mirror_cache, "FRESH_S", 60.0)
    a, b = fetched("a", "b")
    open_run(join(url, "b"))
    assert keep_within(0) == [a]
    assert b.exists()


def test_the_configuration_says_how_much_they_may_take(
    fetched: Callable[..., list[Path]], url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Opening a run makes room for it."""
    a, b = fetched("a", "b")
    for words, mebibytes in (("0", float("inf")), ("", 10_240), ("0.5", 0.5)):
        with monkeypatch.context() as patch:
            if words:
                patch.setenv("MOTHTRAP_CACHE_MB", words)
            assert configured_bytes() == mebibytes * 2**20
    monkeypatch.setenv("MOTHTRAP_CACHE_MB", str((size(a, b) + 500) / 2**20))
    run = open_run(join(url, "c"))
    assert (a.exists(), b.exists(), run.path.exists()) == (False, True, True)
    monkeypatch.setenv("MOTHTRAP_CACHE_MB", "0.0001")
    open_run(join(url, "b"))
    assert b.exists(), "nothing came, so nothing has to make room"
    open_run(join(url, "a"))
    assert (b.exists(), run.path.exists()) == (False, True)


def test_a_size_that_cannot_be_is_refused_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match=r"MOTHTRAP_CACHE_MB: cache_mb must be 0 \(no limit\)"):
        load_config(start=Path("/"), environ={"MOTHTRAP_CACHE_MB": "-1"})
    monkeypatch.setenv("MOTHTRAP_CACHE_MB", "-1")
    assert configured_bytes() == float("inf")


def test_a_spool_is_never_removed(fetched: Callable[..., list[Path]], url: str) -> None:
    spool = spool_folder(url) / "mine"
    layout.create_run(spool, info(id="mine", pid=DEAD_PID))
    write_remote(spool, Remote(url=join(url, "mine"), role="spool"))
    mirrors = fetched("a", "b")
    assert keep_within(0) == mirrors
    assert (spool / "1" / "run.json").exists()


def test_what_an_interrupted_removal_has_left_goes_with_the_next(
    fetched: Callable[..., list[Path]],
) -> None:
    (mirror,) = fetched("a")
    mirror.parent.rename(mirror.parent.with_name(f"{GONE}x"))
    assert keep_within(float("inf")) == []
    assert list(mirrors_folder().iterdir()) == []


def test_a_reader_that_comes_while_a_mirror_is_removed_has_one_of_its_own(tmp_path: Path) -> None:
    """Many readers lock a folder while it is removed again and again: the holder has it."""
    place, ended, torn = tmp_path / "mirror", threading.Event(), []
    folder = place / "run-0" / "run"

    def use() -> None:
        while not ended.is_set():
            held = Use(folder)
            torn.append(not (folder / ".in-use").exists())
            del held

    readers = [threading.Thread(target=use) for _ in range(3)]
    for reader in readers:
        reader.start()
    removed = 0
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MOTHTRAP_CACHE", str(tmp_path))
        patch.setattr(mirror_cache, "FRESH_S", -1.0)
        while removed < 20 or len(torn) < 100:
            removed += len(keep_within(-1))
    ended.set()
    for reader in readers:
        reader.join()
    assert not any(torn)


def test_where_there_are_no_locks_nothing_is_removed(
    fetched: Callable[..., list[Path]], monkeypatch: pytest.MonkeyPatch, url: str
) -> None:
    def refuse(_file: int, _kind: int) -> None:
        raise OSError(37, "No locks available")

    fetched("a")
    with monkeypatch.context() as patch:
        patch.setattr(mirror_cache.fcntl, "flock", refuse)
        assert losses(open_run(join(url, "a"))) == [1.0]
        assert keep_within(0) == []
