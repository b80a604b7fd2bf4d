"""Access to the files behind a model, and the run that a model file comes from."""

from __future__ import annotations

import os
import stat
import subprocess
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from mothtrap.core.audited import AuditedFile, Origin
from mothtrap.core.errors import MothtrapError
from mothtrap.reader.record.items import Item
from mothtrap.reader.run import Run, open_run
from mothtrap.session.record.keeper import digest_of_file
from mothtrap.session.repository import TIMEOUT_S, git
from mothtrap.store import layout

MOST_RUNS = 100
"""Number of latest runs searched for a model file; chosen by hand: reading one takes 10 ms."""
EVERYONE, GROUP, OWNER = "everyone", "group", "owner"


def audited(files: Mapping[str, str]) -> tuple[AuditedFile, ...]:
    """Describe the files of a probe run, by role; missing files are left out.

    Args:
        files: path by role.
    """
    found = []
    for role, path in files.items():
        with suppress(OSError):
            found.append(_audited(role, Path(path).absolute()))
    return tuple(found)


def _audited(role: str, path: Path) -> AuditedFile:
    state, folder = path.stat(), path.parent.stat()
    digest, size = digest_of_file(path) if path.is_file() else ("", 0)
    return AuditedFile(
        role=role,
        path=str(path),
        readers=_who(path, state.st_mode, stat.S_IRGRP, stat.S_IROTH),
        writers=max(
            _who(path, state.st_mode, stat.S_IWGRP, stat.S_IWOTH),
            _who(path, _replacing(folder.st_mode), stat.S_IWGRP, stat.S_IWOTH),
            key=(OWNER, GROUP, EVERYONE).index,
        ),
        versioned=_is_versioned(path),
        digest=digest,
        size_bytes=size,
    )


def _replacing(folder_mode: int) -> int:
    """Return the mode of a folder; with the sticky bit, only the owner may replace a file."""
    return 0 if folder_mode & stat.S_ISVTX else folder_mode


def _who(path: Path, mode: int, group: int, others: int) -> str:
    """Return who has a permission on a file, if they can access the folders above it."""
    folders = [os.stat(parent).st_mode for parent in path.parents]
    if mode & others and all(each & stat.S_IXOTH for each in folders):
        return EVERYONE
    if mode & group and all(each & (stat.S_IXGRP | stat.S_IXOTH) for each in folders):
        return GROUP
    return OWNER


def _is_versioned(path: Path) -> bool:
    """Return whether git tracks the file, directly or through a DVC pointer file."""
    until_s = time.monotonic() + TIMEOUT_S
    for name in (path.name, f"{path.name}.dvc"):
        try:
            git(path.parent, until_s, "ls-files", "--error-unmatch", "--", name)
        except (subprocess.SubprocessError, OSError):
            continue
        return True
    return False


def origin_of(model: AuditedFile, runs_dir: str | Path) -> Origin | None:
    """Return the training run that logged a model file, found by digest or else by path.

    Only files that a script logged with `mothtrap.log_artifact` are found.

    Args:
        model: the model file.
        runs_dir: folder of the runs.
    """
    by_path: Origin | None = None
    folder = Path(runs_dir)
    for path in layout.list_runs(folder)[-MOST_RUNS:][::-1] if folder.is_dir() else []:
        with suppress(MothtrapError, OSError):
            run = open_run(path)
            for item in run.record.items[::-1]:
                if item.kind != "artifact":
                    continue
                if item.digest == model.digest:
                    return _origin(run, item, is_same=True)
                if by_path is None and _path_of(run, item) == model.path:
                    by_path = _origin(run, item, is_same=False)
    return by_path


def _path_of(run: Run, item: Item) -> str:
    return os.path.normpath(Path(run.record.cwd, str(item.about.get("path", ""))))


def _origin(run: Run, item: Item, *, is_same: bool) -> Origin:
    return Origin(
        run=run.id,
        step=item.step,
        digest=item.digest,
        is_same=is_same,
        user=run.record.user,
        started_s=run.record.started_s,
    )
