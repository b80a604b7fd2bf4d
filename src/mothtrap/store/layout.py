"""Layout of a run: its folders and files, and their creation.

    RUN/<attempt>/run.json                     how the attempt was started
    RUN/<attempt>/end.json                     how the attempt ended
    RUN/<attempt>/replay.json                  result of the replay at the end of the job
    RUN/<attempt>/probe.json                   size and cost of a probe run
    RUN/<attempt>/serve.json                   counts of an asserted predict function
    RUN/<attempt>/source.json                  the script's repository at the start
    RUN/<attempt>/output-<offset>.log          the end of the job's output, if it went to a file
    RUN/<attempt>/w<rank>/<table>-<seq>.arrow  captured data of a worker
    RUN/<attempt>/w<rank>/time_<name>-<seq>.arrow   rows that are indexed by time, not by step
    RUN/<attempt>/w<rank>/ledger.json          parameters, data, seeds, versions at the first step
    RUN/<attempt>/w<rank>/packages.txt         installed packages, in the format of `pip freeze`
    RUN/<attempt>/w<rank>/sources.json         the script and its modules, at the first step
    RUN/<attempt>/w<rank>/stalled.json         state of a stalled worker
    RUN/<attempt>/w<rank>/record/<number>.<suffix>   logged items other than numbers
    RUN/<attempt>/m<id>/findings-<seq>.arrow   findings of a monitor
    RUN/<attempt>/m<id>/rows-<seq>.arrow       rows of the user's data that findings are about
    RUN/<attempt>/m<id>/failing-<seq>.arrow    rows whose predictions broke an assertion
    RUN/<attempt>/n<node>/workers-<seq>.arrow  steps and facts of the workers of a node, merged
    RUN/<attempt>/n<node>/sent/<seq>.json      objects that the node has sent (stores only)
    RUN/<attempt>/machine/time_machine-<seq>.arrow   the machine, sampled once a second
    RUN/alerts/  RUN/marks/  RUN/labels/       sent messages; marks and labels of people
    RUN/snapshots/  RUN/control/               snapshots; requests to a running job
    RUN/analyses/  RUN/leases/                 results over many runs; the monitor of the run

Attempts count from 1, ranks, monitors and sequence numbers from 0. Sequence numbers
are zero-padded, so that the order of names is the order of time. A node is eight hexadecimal
digits.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
from collections.abc import Iterable
from pathlib import Path, PurePosixPath
from typing import TypeVar

import msgspec
import xxhash

from mothtrap.core import jsonable
from mothtrap.core.errors import (
    DamagedDataError,
    RunExistsError,
    RunNotFoundError,
    nearest,
)
from mothtrap.core.ledger import Ledger, Source, SourceTexts
from mothtrap.core.probed import Probed
from mothtrap.core.replays import StoredReplay
from mothtrap.core.runs import RunEnd, RunInfo
from mothtrap.core.served import Served
from mothtrap.store.durability import sync_file, sync_folder
from mothtrap.store.plain_files import read_plain

COMMITS: tuple[str, ...] = ("events", "findings")
"""Tables that make other data valid; sent last."""
TABLES_OF_STEPS: tuple[str, ...] = ("stats", "scalars", "raw", "index", "batches")
"""Tables whose rows belong to steps that an event commits."""
TIMED = "time_"
"""Prefix of tables whose rows are indexed by time, and belong to no step."""
FIRST_ATTEMPT = 1
LEDGER = "ledger.json"
PACKAGES = "packages.txt"
SOURCES = "sources.json"
MAX_WORKERS = 100_000
MAX_DESCRIPTION_BYTES = 64 << 20
"""Maximum size of a description that is read; chosen by hand, far above any that is written."""
NAMED = 5
"""Maximum number of runs of a folder that a message names; chosen by hand."""
T = TypeVar("T")

MOST_LISTED = 10_000
"""Maximum number of files that the end of an attempt lists (about 500 kB); chosen by hand."""
_LISTED = frozenset({".arrow", ".json", ".log"})
NODE = re.compile("n[0-9a-f]{8}")
"""Pattern of the name of a node's folder."""
_SEGMENT = re.compile(r"([a-z][a-z0-9_]*)-([0-9]{8})\.arrow")


def segment_path(folder: Path, table: str, seq: int) -> Path:
    """Return the path of segment `seq` of a table."""
    return folder / f"{table}-{seq:08d}.arrow"


def segments(folder: Path, table: str) -> list[int]:
    """Return the sequence numbers of the segments of a table, ascending."""
    matches = (_SEGMENT.fullmatch(name) for name in _names(folder))
    return sorted(int(m.group(2)) for m in matches if m and m.group(1) == table)


def tables(folder: Path) -> tuple[str, ...]:
    """Return the names of the tables that have a segment in a folder, sorted."""
    matches = (_SEGMENT.fullmatch(name) for name in _names(folder))
    return tuple(sorted({m.group(1) for m in matches if m}))


def attempt_folder(run: Path, attempt: int) -> Path:
    """Return the folder of an attempt."""
    return run / str(attempt)


def attempts(run: Path) -> list[int]:
    """Return the attempts of a run, ascending; empty if `run` is not a run."""
    numbers = (int(name) for name in _names(run) if re.fullmatch(r"[1-9][0-9]{0,8}", name))
    return sorted(n for n in numbers if _is_attempt(attempt_folder(run, n)))


def _is_attempt(folder: Path) -> bool:
    """Return whether a folder contains an attempt, even one without a description."""
    return os.path.isfile(folder / "run.json") or bool(workers(folder))


def worker_folder(attempt: Path, rank: int) -> Path:
    """Return the folder of a worker."""
    return attempt / f"w{rank}"


def workers(attempt: Path) -> list[int]:
    """Return the ranks that have a folder, ascending."""
    return _numbered(attempt, "w")


def monitor_folder(attempt: Path, monitor: int) -> Path:
    """Return the folder of the findings of one monitor (inline: the worker's rank)."""
    return attempt / f"m{monitor}"


def monitors(attempt: Path) -> list[int]:
    """Return the ids of the monitors that have a folder, ascending."""
    return _numbered(attempt, "m")


def node_folder(attempt: Path, node: str) -> Path:
    """Return the folder of the merged log of a node."""
    return attempt / f"n{node}"


def nodes(attempt: Path) -> list[str]:
    """Return the nodes that have a folder, sorted."""
    return sorted(name[1:] for name in _names(attempt) if NODE.fullmatch(name))


def stored_files(attempt: Path) -> tuple[str, ...]:
    """Return the files of an attempt that are not empty, as sorted paths in its folder.

    Returns:
        Paths of segments, descriptions, and outputs; empty if there are more than `MOST_LISTED`.
    """
    found = [
        path.relative_to(attempt).as_posix()
        for path in attempt.rglob("*.*")
        if path.suffix in _LISTED and path.is_file() and path.stat().st_size
    ]
    return tuple(sorted(found)) if len(found) <= MOST_LISTED else ()


def missing_files(attempt: Path, listed: Iterable[str]) -> list[str]:
    """Return the `stored_files` that are missing or empty, ignoring paths outside the folder."""
    return [name for name in listed if _is_inside(name) and not _has_bytes(attempt / name)]


def _is_inside(name: str) -> bool:
    path = PurePosixPath(name)
    return not path.is_absolute() and ".." not in path.parts


def _has_bytes(path: Path) -> bool:
    try:
        return path.stat().st_size > 0
    except (OSError, ValueError):
        return False


def create_run(run: Path, info: RunInfo) -> Path:
    """Create a new run with its first attempt, atomically.

    Returns:
        The folder of the attempt.

    Raises:
        RunExistsError: `run` already exists.
        OSError: the folder cannot be written.
    """
    run.parent.mkdir(parents=True, exist_ok=True)
    draft = run.parent / f".draft-{secrets.token_hex(8)}"
    draft.mkdir()
    try:
        attempt = attempt_folder(draft, info.attempt)
        attempt.mkdir()
        write_info(attempt, info)
        try:
            os.rename(draft, run)
            sync_folder(run.parent)
        except OSError as err:
            if not os.path.lexists(run):
                raise
            raise RunExistsError(
                f"cannot create the run {run.name!r}: {run} already exists; choose another name "
                "with --name, continue the run with --resume, or remove that folder"
            ) from err
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return attempt_folder(run, info.attempt)


def create_attempt(run: Path, info: RunInfo) -> Path:
    """Open the attempt `info.attempt` of an existing run; see `create_run`."""
    attempt = attempt_folder(run, info.attempt)
    try:
        attempt.mkdir()
    except FileExistsError as err:
        raise RunExistsError(
            f"cannot create attempt {info.attempt} of {run}: it already exists; existing attempts: "
            f"{attempts(run)}; take the next number"
        ) from err
    write_info(attempt, info)
    return attempt


def claim_worker(attempt: Path, wanted: int | None = None) -> tuple[int, Path]:
    """Claim a free worker folder.

    Args:
        attempt: folder of the attempt.
        wanted: rank to use if it is free; otherwise, or if None, the first free rank.

    Returns:
        The rank and its new folder.
    """
    candidates = range(MAX_WORKERS) if wanted is None else (wanted, *range(MAX_WORKERS))
    for rank in candidates:
        folder = worker_folder(attempt, rank)
        try:
            folder.mkdir()
        except FileExistsError:
            continue
        return rank, folder
    raise RunExistsError(
        f"cannot find a free worker folder: {attempt} has {MAX_WORKERS}; start another run"
    )


def write_info(attempt: Path, info: RunInfo) -> None:
    """Write `run.json`."""
    _replace(attempt / "run.json", jsonable.encode(info))


def write_end(attempt: Path, end: RunEnd) -> None:
    """Write `end.json`."""
    _replace(attempt / "end.json", jsonable.encode(end))


def read_info(attempt: Path) -> RunInfo | None:
    """Read `run.json`; None if absent.

    Raises:
        DamagedDataError: the file was not written by `write_info`, or is damaged.
    """
    return _read(attempt / "run.json", RunInfo)


def read_end(attempt: Path) -> RunEnd | None:
    """Read `end.json`; None if absent. Raises the same errors as `read_info`."""
    return _read(attempt / "end.json", RunEnd)


def write_replay(attempt: Path, replay: StoredReplay) -> None:
    """Write `replay.json`."""
    _replace(attempt / "replay.json", jsonable.encode(replay))


def write_probed(attempt: Path, probed: Probed) -> None:
    """Write `probe.json`."""
    _replace(attempt / "probe.json", jsonable.encode(probed))


def read_probed(attempt: Path) -> Probed | None:
    """Read `probe.json`; None if absent. Raises the same errors as `read_info`."""
    return _read(attempt / "probe.json", Probed)


def write_served(attempt: Path, served: Served) -> None:
    """Write `serve.json`."""
    _replace(attempt / "serve.json", jsonable.encode(served))


def read_served(attempt: Path) -> Served | None:
    """Read `serve.json`; None if absent. Raises the same errors as `read_info`."""
    return _read(attempt / "serve.json", Served)


def read_replay(attempt: Path) -> StoredReplay | None:
    """Read `replay.json`; None if absent. Raises the same errors as `read_info`."""
    return _read(attempt / "replay.json", StoredReplay)


def replay_changed_ns(attempt: Path) -> int:
    """Return when `replay.json` was last written, ns since the epoch; 0 if absent."""
    try:
        return (attempt / "replay.json").stat(follow_symlinks=False).st_mtime_ns
    except OSError:
        return 0


def write_source(attempt: Path, source: Source) -> None:
    """Write `source.json` of an attempt."""
    _replace(attempt / "source.json", jsonable.encode(source))


def read_source(attempt: Path) -> Source | None:
    """Read `source.json`; None if absent. Raises the same errors as `read_info`."""
    return _read(attempt / "source.json", Source)


def write_ledger(worker: Path, ledger: Ledger) -> None:
    """Write `ledger.json` of a worker."""
    _replace(worker / LEDGER, jsonable.encode(ledger))


def read_packages(worker: Path) -> dict[str, str]:
    """Read `packages.txt`: the version of each package, or `@ url`; empty if absent."""
    try:
        text = read_plain(worker / PACKAGES, MAX_DESCRIPTION_BYTES).decode(errors="replace")
    except OSError:
        return {}
    return packages_in(text.splitlines())


def packages_in(lines: Iterable[str]) -> dict[str, str]:
    """Return the version of each package in a lock file, or `@ url`."""
    pairs = (re.split("==| (?=@ )", line, maxsplit=1) for line in lines)
    return {pair[0]: pair[1] for pair in pairs if len(pair) == 2}


def read_ledger(worker: Path) -> Ledger | None:
    """Read `ledger.json`; None if absent. Raises the same errors as `read_info`."""
    return _read(worker / LEDGER, Ledger)


def write_source_texts(worker: Path, texts: SourceTexts) -> None:
    """Write `sources.json` of a worker."""
    _replace(worker / SOURCES, jsonable.encode(texts))


def read_source_texts(worker: Path) -> SourceTexts:
    """Read `sources.json`; empty if absent. Raises the same errors as `read_info`."""
    return _read(worker / SOURCES, SourceTexts) or SourceTexts()


def list_runs(runs_dir: Path) -> list[Path]:
    """Return the runs of a folder, latest start first."""
    return sorted((p for p in folders(runs_dir) if attempts(p)), key=started, reverse=True)


def folders(runs_dir: Path) -> list[Path]:
    """Return the entries of a folder of runs that may be runs; hidden entries are drafts."""
    return [runs_dir / name for name in _names(runs_dir) if not name.startswith(".")]


def started(run: Path) -> tuple[float, str]:
    """Return the start of a run's latest attempt as a Unix time in seconds, and the run's name."""
    attempt = attempt_folder(run, attempts(run)[-1])
    try:
        info = read_info(attempt)
    except DamagedDataError:
        info = None
    return (info.created_s if info else 0.0, run.name)


def find_run(argument: str | Path | None, runs_dir: str | Path) -> Path:
    """Return the folder of the requested run.

    Args:
        argument: a path, a name under `runs_dir`, or None for the latest run.
        runs_dir: the folder of runs.

    Raises:
        RunNotFoundError: there is no such run; the message suggests one.
    """
    folder = Path(runs_dir)
    if argument is None:
        known = list_runs(folder)
        if not known:
            raise RunNotFoundError(
                f"no run found: {folder} contains no runs; record one with `mothtrap run "
                "train.py`, or pass the folder that contains the runs with --runs-dir"
            )
        return known[0]
    for path in (Path(argument), folder / argument):
        if attempts(path):
            return path
    path = Path(argument)
    if runs := list_runs(path):
        found = ", ".join(run.name for run in runs[:NAMED])
        raise RunNotFoundError(
            f"no run found at {str(argument)!r}: it is a folder of runs, the latest "
            f"first: {found}{' ...' if len(runs) > NAMED else ''}; name one of them"
        )
    if path.name.isdecimal() and attempts(path.parent):
        raise RunNotFoundError(
            f"no run found at {str(argument)!r}: it is an attempt of {path.parent}; name the run"
        )
    folder = path.parent if len(path.parts) > 1 and list_runs(path.parent) else folder
    names = [path.name for path in list_runs(folder)]
    hint = nearest(path.name, names)
    count = f"{len(names)} run{'' if len(names) == 1 else 's'}" if names else "no runs"
    has = f"{folder} contains {count}"
    raise RunNotFoundError(
        f"no run found at {str(argument)!r}{hint}: it is neither the folder nor the name of a run; "
        f"{has}; `mothtrap ls` lists them"
    )


def _names(folder: Path) -> list[str]:
    try:
        return os.listdir(folder)
    except (OSError, ValueError):  # ValueError: a NUL in the name
        return []


def _numbered(folder: Path, letter: str) -> list[int]:
    matches = (re.fullmatch(letter + r"(0|[1-9][0-9]{0,8})", name) for name in _names(folder))
    return sorted(int(m.group(1)) for m in matches if m)


def _replace(path: Path, data: bytes) -> None:
    # Readers must see the old file or the new one, never a partial file.
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    with draft.open("wb") as file:
        file.write(sealed(data))
        file.flush()
        sync_file(file.fileno())  # otherwise a loss of power may leave the name without the bytes
    os.replace(draft, path)
    sync_folder(path.parent)


def _read(path: Path, kind: type[T]) -> T | None:
    try:
        data = read_plain(path, MAX_DESCRIPTION_BYTES)
    except FileNotFoundError:
        if path.is_symlink():
            raise _unreadable(path, "it is a broken symbolic link") from None
        return None
    except OSError as err:
        raise _unreadable(path, err.strerror or str(err)) from err
    if not intact(data):
        raise _unreadable(
            path,
            "its bytes do not match its checksum; remove the key `checksum` if the file was "
            "edited on purpose",
        )
    try:
        return jsonable.decode(data, kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as err:
        raise _unreadable(path, f"{err}; expected a JSON object as mothtrap writes it") from err


def _unreadable(path: Path, why: str) -> DamagedDataError:
    return DamagedDataError(f"{path} cannot be read: {why}; the rest of the run can still be read")


def sealed(data: bytes) -> bytes:
    """Append a checksum of the preceding content to a JSON object, as its last key."""
    body = data[:-1]
    return body + b',"checksum":"%016x"}' % xxhash.xxh3_64_intdigest(body)


def intact(data: bytes) -> bool:
    """Return whether a JSON object matches its checksum; True if it has no damage."""
    body, found, rest = data.rpartition(b',"checksum":"')
    return not found or rest == b'%016x"}' % xxhash.xxh3_64_intdigest(body)
