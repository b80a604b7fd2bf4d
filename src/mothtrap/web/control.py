"""What the page may ask of a running job."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec

from mothtrap.core.collections import Collection, complaint
from mothtrap.core.control import CaptureRequest
from mothtrap.core.errors import ConfigError, UnknownNameError, nearest
from mothtrap.session.asking import ask, check_running, common_step, in_force, when
from mothtrap.store.control import new_id
from mothtrap.store.layout import attempts

ANSWER_S = 20.0
"""How long the page waits for the job's answer; chosen by hand: a click should not hang."""
MAX_BYTES = 1 << 16


class Done(msgspec.Struct, frozen=True, kw_only=True):
    """What came of a request, in a sentence."""

    message: str


class CaptureWish(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Tensors to capture from the next step on, see `core.collections.Collection`."""

    tensors: str
    every: int = 1
    for_steps: int | None = None


def capture(path: Path, body: bytes) -> Done:
    """Have a running job capture more.

    Raises:
        ConfigError: the pattern cannot be used.
        ControlError: the job does not run, refuses, or gives no answer.
    """
    try:
        wish = msgspec.json.decode(body, type=CaptureWish)
    except msgspec.DecodeError as err:
        raise ConfigError(f"the request cannot be read: {err}") from err
    collection = Collection(tensors=(wish.tensors,), every=wish.every)
    if found := complaint(wish.tensors, collection):
        raise ConfigError(found)
    job = check_running(path)
    request = CaptureRequest(
        id=new_id(),
        attempt=attempts(path)[-1],
        add={wish.tensors: collection},
        for_steps=wish.for_steps,
        from_step=common_step(job),
    )
    answers = ask(path, request, ANSWER_S)
    return Done(message=f"{wish.tensors}: {when(request, answers, in_force(path))}")


CONTROLS: dict[str, Callable[[Path, bytes], Done]] = {"capture": capture}
"""What can be asked, by the last part of its address; the page shows what is listed here."""


def carry_out(name: str, path: Path, body: bytes) -> Done:
    """Carry out a request to a run.

    Raises:
        UnknownNameError: there is no such request.
    """
    if name not in CONTROLS:
        raise UnknownNameError(f"there is no request {name!r}{nearest(name, CONTROLS)}")
    if len(body) > MAX_BYTES:
        raise ConfigError(f"the request has more than {MAX_BYTES:,} bytes")
    return CONTROLS[name](path, body)
