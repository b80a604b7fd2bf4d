"""Files behind a model, and the training run that produced the model file."""

from __future__ import annotations

import msgspec


class AuditedFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file that a model was probed with.

    `role` is `model`, `data`, `training data`, `new data`, or `runs`. `readers` and `writers` are
    `owner`, `group`, or `everyone` on this machine; whoever may replace the file counts as a
    writer.
    `versioned`: the file is tracked by git. `digest` is the SHA-256 of a file, and empty for a
        folder.
    """

    role: str
    path: str
    readers: str
    writers: str
    versioned: bool = False
    digest: str = ""
    size_bytes: int = 0


class Origin(msgspec.Struct, frozen=True, kw_only=True):
    """The training run that logged or saved a model file.

    `digest` is the digest that the run stored; `is_same` says whether the file still has it. `user`
    started the run at the Unix time `started_s`.
    """

    run: str
    step: int
    digest: str
    is_same: bool
    user: str = ""
    started_s: float = 0.0
