from __future__ import annotations

from pathlib import Path

import psutil
import pytest

from mothtrap.snapshot import spare_memory
from mothtrap.snapshot.spare_memory import available_bytes, spare_bytes

GB = 2**30


@pytest.fixture(autouse=True)
def _machine(monkeypatch: pytest.MonkeyPatch) -> None:
    class Memory:
        available = 64 * GB

    monkeypatch.setattr(psutil, "virtual_memory", Memory)


def group(root: Path, folder: str, files: dict[str, str]) -> None:
    path = root / "sys/fs/cgroup" / folder
    path.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (path / name).write_text(text)


def process(root: Path, *lines: str) -> None:
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/self/cgroup").write_text("".join(f"{line}\n" for line in lines))


def test_without_limits_it_is_what_the_machine_has(tmp_path: Path) -> None:
    assert available_bytes(tmp_path) == 64 * GB
    process(tmp_path, "0::/job")
    group(tmp_path, "job", {"memory.max": "max\n", "memory.current": "5\n", "memory.stat": ""})
    assert available_bytes(tmp_path) == 64 * GB


def test_the_limit_of_a_container_counts_and_its_cache_does_not(tmp_path: Path) -> None:
    process(tmp_path, "0::/")
    stat = f"anon {3 * GB}\nactive_file {GB}\ninactive_file {2 * GB}\n"
    files = {"memory.max": f"{8 * GB}\n", "memory.current": f"{6 * GB}\n", "memory.stat": stat}
    group(tmp_path, "", files)
    assert available_bytes(tmp_path) == 5 * GB


def test_the_tightest_of_the_groups_above_counts(tmp_path: Path) -> None:
    process(tmp_path, "0::/slice/job")
    for folder, most in (("slice/job", 8), ("slice", 4)):
        files = {"memory.max": str(most * GB), "memory.current": str(GB), "memory.stat": ""}
        group(tmp_path, folder, files)
    assert available_bytes(tmp_path) == 3 * GB


def test_the_older_form_of_groups_is_read_too(tmp_path: Path) -> None:
    process(tmp_path, "9:cpu:/docker/x", "4:memory:/docker/x", "0::/docker/x")
    files = {
        "memory.limit_in_bytes": str(4 * GB),
        "memory.usage_in_bytes": str(3 * GB),
        "memory.stat": f"inactive_file 0\ntotal_inactive_file {GB}\ntotal_active_file 0\n",
    }
    group(tmp_path, "memory", files)  # as it is mounted inside a container
    assert available_bytes(tmp_path) == 2 * GB


def test_each_worker_of_a_machine_gets_its_part(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spare_memory, "available_bytes", lambda: 64.0 * GB)
    assert spare_bytes({}) == 32 * GB
    assert spare_bytes({"LOCAL_WORLD_SIZE": "8", "SLURM_NTASKS_PER_NODE": "1"}) == 4 * GB
    assert spare_bytes({"SLURM_NTASKS_PER_NODE": "4(x2)"}) == 32 * GB
