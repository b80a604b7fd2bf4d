"""Exporting a run: finding the format, and moving the result to its destination."""

from __future__ import annotations

import os
import secrets
import shutil
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from mothtrap.core import registry
from mothtrap.core.errors import OutputExistsError, UnknownNameError, nearest
from mothtrap.exports._choice import Choice, Written
from mothtrap.reader.run import Run

PACKAGE = "mothtrap.exports"


def formats() -> tuple[str, ...]:
    """Return the names of the export formats, sorted."""
    return tuple(name.replace("_", "-") for name in registry.names(PACKAGE))


def export_run(run: Run, to: str, path: str | Path, choice: Choice | None = None) -> Written:
    """Export a run to another format; a failed export leaves no file behind.

    Args:
        run: the run. For a running job, the data recorded so far is exported.
        to: the format, one of `formats()`.
        path: the file or folder to create, depending on the format.
        choice: steps and tensors to export; None means all.

    Returns:
        Numbers of exported values, and the omitted data.

    Raises:
        UnknownNameError: there is no such format, or the run has no data that `choice` selects.
        OutputExistsError: `path` already exists.
        MissingExtraError: the format needs a package that is not installed.
        PluginError: the format comes from another package and cannot be used.
        OSError: the file or folder cannot be written.
    """
    target, chosen = Path(path), choice or Choice()
    form = _form(to)
    matching = (chosen.has_tensor(tensor.info) for tensor in run.tensors())
    if chosen.tensors != "*" and not any(matching):
        raise UnknownNameError(_no_tensor(run, chosen.tensors))
    _refuse_existing(target)
    target.parent.mkdir(parents=True, exist_ok=True)
    draft = target.parent / f".draft-{secrets.token_hex(8)}"
    try:
        written = _with_damage(form.write(run, draft, chosen), run)
        if not any(written.counts.values()):
            raise UnknownNameError(_nothing(run, to, chosen, written))
        os.rename(draft, target)
    finally:
        if draft.is_dir():
            shutil.rmtree(draft, ignore_errors=True)
        else:
            draft.unlink(missing_ok=True)
    return written


def follow_run(
    run: Run, to: str, path: str | Path, choice: Choice | None = None, every_s: float = 10.0
) -> Written:
    """Export a running job's run continuously, until the job ends.

    Args:
        run: the run.
        to: the format; of the built-in formats, only `tensorboard` supports this.
        path: the file or folder to create.
        choice: steps and tensors to export; None means all.
        every_s: seconds between two reads of the run.

    Returns:
        Numbers of exported values, and the omitted data.

    Raises:
        UnknownNameError: there is no such format, or it cannot be extended during a run.
        OutputExistsError: `path` already exists.
        MissingExtraError: the format needs a package that is not installed.
        OSError: the file or folder cannot be written.
    """
    target, form = Path(path), _form(to)
    if not hasattr(form, "follow"):
        raise UnknownNameError(
            f"the format {to!r} cannot follow a running job; use tensorboard, or export to {to} "
            "again when the job has ended"
        )
    _refuse_existing(target)
    written = form.follow(run, target, choice or Choice(), lambda: time.sleep(every_s))
    return _with_damage(written, run)


def _with_damage(written: Written, run: Run) -> Written:
    """Add the damage of the run to the list of omitted parts."""
    return replace(written, left_out=tuple(dict.fromkeys((*written.left_out, *run.damage))))


def _form(to: str) -> Any:
    known = formats()
    if to not in known and to.replace("_", "-") not in known:
        raise UnknownNameError(
            f"there is no format {to!r}{nearest(to, known)}; the formats are: {', '.join(known)}"
        )
    return registry.load(PACKAGE, to.replace("-", "_"))


def _refuse_existing(target: Path) -> None:
    if os.path.lexists(target):
        raise OutputExistsError(
            f"cannot export to {target}: it exists; choose another path, or remove it"
        )


def _no_tensor(run: Run, pattern: str) -> str:
    names = [tensor.identity for tensor in run.tensors()]
    has = f"it has {len(names):,}, such as {names[0]}" if names else "it has none"
    return f"no tensor of run {run.id} matches {pattern!r}{nearest(pattern, names)}; {has}"


def _nothing(run: Run, to: str, choice: Choice, written: Written) -> str:
    """Return the reason why nothing can be written."""
    end = "the end" if choice.end is None else f"step {choice.end}"
    wanted = " or ".join(written.counts)
    reasons = "".join(f"; {reason}" for reason in written.left_out)
    return (
        f"nothing to export to {to}: run {run.id} has {run.steps} steps, and no {wanted} of "
        f"tensors that match {choice.tensors!r} from step {choice.begin} to {end}{reasons}"
    )
