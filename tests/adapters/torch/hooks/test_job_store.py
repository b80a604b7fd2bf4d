"""The store of a process group, in which processes of a job leave messages."""

from __future__ import annotations

from pathlib import Path

import torch.distributed as dist

from mothtrap.adapters.torch.hooks.job_store import JobStore, job_store


def test_a_word_is_found_once_it_was_left(tmp_path: Path) -> None:
    store = dist.FileStore(str(tmp_path / "store"), 2)
    first, second = JobStore(store, 0), JobStore(store, 1)
    assert second.find("run/0") is None
    first.leave("run/0", "héllo")
    assert (first.find("run/0"), second.find("run/0")) == ("héllo", "héllo")


def test_each_process_counts_for_itself_beside_what_is_left(tmp_path: Path) -> None:
    store = dist.FileStore(str(tmp_path / "store"), 2)
    first, second = JobStore(store, 0), JobStore(store, 1)
    first.leave("run/0", "x")
    assert [first.count("run"), first.count("run"), second.count("run")] == [0, 1, 0]
    assert first.find("run/0") == "x"


def test_a_process_without_a_group_has_none() -> None:
    assert job_store() is None
