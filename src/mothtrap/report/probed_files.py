"""Files of a probe run in words: who can read and change them, and where copies are."""

from __future__ import annotations

import time

from mothtrap.core.audited import AuditedFile, Origin
from mothtrap.core.probed import Probed


def file_lines(probed: Probed | None) -> tuple[str, ...]:
    """Return a sentence about each file, and a sentence about the model's training run."""
    if probed is None:
        return ()
    lines = [_sentence(file, probed.origin) for file in probed.files]
    if probed.origin is not None:
        lines.append(_from(probed.origin))
    return tuple(lines)


def _sentence(file: AuditedFile, origin: Origin | None) -> str:
    who = f"readable by {file.readers}, writable by {file.writers}"
    if file.versioned:
        copies = "in version control"
    elif file.role == "model" and origin is not None and origin.is_same:
        copies = f"not in version control; its digest is in the run {origin.run}"
    else:
        copies = "not in version control, and no other copy is known"
    return f"{file.role} {file.path}: {who}; {copies}"


def _from(origin: Origin) -> str:
    day = time.strftime("%Y-%m-%d %H:%M", time.localtime(origin.started_s))
    who = f" by {origin.user}" if origin.user else ""
    if origin.is_same:
        return f"model from the run {origin.run}, step {origin.step:,}, started {day}{who}"
    return f"the run {origin.run} ({day}{who}) logged a different file at the model's path"
