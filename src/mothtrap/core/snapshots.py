"""Data types of a snapshot: the data needed to repeat a step elsewhere.

A **recorded step** contains the inputs of one step, in order. The **state** is the beginning of
the step: weights, buffers, optimizers, schedulers, scalers, modes. A snapshot has one state and
the recorded steps that lead from it to the requested step.

Values are stored as a `Tree`: plain JSON, with the arrays stored separately under keys. It
contains no code: a reader rebuilds values from a closed list of forms (`snapshot.tree`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from mothtrap.core.jsonable import UnixTime

BASE = "base"
"""Reason of a base state, kept for replaying later steps that turn out bad."""

BUILD = " --build MODULE:FUNCTION"
"""Option that a replay requires if there is no script to start again."""

Tree = dict[str, Any] | str | int | float | bool | None
"""Nested values as plain JSON.

A string, a number, a boolean and None represent themselves; every other value is a dict with one of
these words as its first key:

    {"tensor": key}             a framework's tensor, in the arrays; may be followed by
                                "device", "strides", "requires_grad", where these differ from
                                a new tensor in C order on the CPU
    {"array": key}              a numpy array, in the arrays
    {"list": [...]}             also "tuple", "set", "frozenset"
    {"dict": [[key, value], ...]}
    {"float": "NaN"}            also "Infinity", "-Infinity"
    {"int": "digits"}           beyond 64 bits
    {"bytes": "base64"}
    {"text": "base64"}          a string that is not Unicode, as UTF-16
    {"complex": [real, imaginary]}
    {"slice": [start, stop, step]}
                                also "range"
    {"path": "text"}            of a file
    {"scalar": tree}            a numpy scalar, as the tree of an array
    {"objects": [...], "dtype": code, "shape": [...]}
                                a numpy array of objects or texts
    {"named": "module.Class", "fields": {...}}
                                a dataclass, a namedtuple, an instance of a plain Python class;
                                with a key "dict" or "list", an instance of a subclass of that;
                                with a key "member" and no fields, a member of an enum
    {"framework": kind, "fields": {...}}
                                an object that the adapter rebuilds: a generator, a dtype, a device
    {"opaque": "text"}          a value that cannot be kept: its repr, at most 200 characters
    {"redacted": "text"}        a value that the user does not want stored: its type and shape
"""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Array:
    """An array that has not been written to a file yet.

    Attributes:
        dtype: element type without its library, e.g. `bfloat16`, `float8_e4m3fn`.
        shape: lengths of the axes.
        data: uint8, shape (bytes,): the elements in C order, little-endian.
    """

    dtype: str
    shape: tuple[int, ...]
    data: npt.NDArray[np.uint8]


LineDigests = tuple[int, ...]
"""CRC-32 of each line of a source file, without its indentation."""


Counter = bool | int | float | None
"""Value of a counter of a trainer."""


class BatchHanded(msgspec.Struct, frozen=True, kw_only=True, tag="batch"):
    """A loader returned a batch to the user's code.

    `loader`: index of the loader, in order of first iteration, from 0; `site` is the `file:line` of
    that iteration. `rng`: the states of all random generators right afterwards. `counters` are the
    counters of the trainer that requested the batch, by name.
    """

    loader: int
    site: str
    value: Tree
    rng: Tree = None
    counters: dict[str, Counter] | None = None


class ForwardCalled(msgspec.Struct, frozen=True, kw_only=True, tag="forward"):
    """The user's code called a root module.

    `variables`: plain values, tensors without a graph and generators among the variables of the
    calling frame that are new or changed since the previous step; at module level, the globals.
    `trains`: autograd is on. `rng`: the state right before the forward pass; None if it equals the
    state of the previous event. `counters` are the counters of the trainer, by name.
    """

    root: str
    site: str
    args: Tree
    kwargs: Tree
    variables: Tree = None
    rng: Tree = None
    trains: bool = True
    counters: dict[str, Counter] | None = None


class LossCalled(msgspec.Struct, frozen=True, kw_only=True, tag="loss"):
    """A loss was called; arguments without a graph, such as targets and weights, are stored.

    `function` is one of `torch.nn.functional`, or the class of a module without parameters.
    """

    site: str
    function: str
    args: Tree
    kwargs: Tree = None


RecordedEvent = BatchHanded | ForwardCalled | LossCalled


class RecordedStep(msgspec.Struct, frozen=True, kw_only=True):
    """Inputs of one step, in the order in which the script passed them.

    `losses` are the losses of its backward passes, in order. `rates` are the learning rates that
    were applied, by optimizer and group. `carried`: an input has a graph of an earlier step, so the
    replay begins there. `skipped`: no optimizer applied it. `missing`: data that was not kept, and
    why.
    """

    step: int
    events: tuple[RecordedEvent, ...]
    optimizers: tuple[str, ...] = ()
    losses: tuple[float, ...] = ()
    carried: bool = False
    skipped: bool = False
    rates: dict[str, tuple[float, ...]] = {}
    missing: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class KeptStep:
    """A recorded step with the arrays that it refers to, by key.

    A worker uses each key for only one array, so that steps can be combined in one file; an array
    that several steps share may occur in each of them.
    """

    recorded: RecordedStep
    arrays: Mapping[str, Array]


class ReferenceDigests(msgspec.Struct, frozen=True, kw_only=True):
    """Reference digests of a step, in hex (`statistics.digest`).

    `losses` is by site (`file:line`) of the backward pass, followed by `#2`, `#3` ... from its
    second call on; `gradients` is by parameter; `weights` are the weights after the step, if no
    gradients are available. `exception`: the uncaught exception that ended the step, as `Type:
    text`. `values` are the losses themselves, in their order.
    """

    losses: dict[str, str] = {}
    gradients: dict[str, str] = {}
    weights: dict[str, str] = {}
    exception: str | None = None
    values: tuple[float, ...] = ()


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """Data needed to replay `step`.

    `state_step` is the step before which the state was saved: `step` itself if it is exact; smaller
    if the recorded steps lead from it to `step`; larger if the state is later than the step, which
    `note` then states. `reason` is the reason for the snapshot: `unsound step: WHY`, `finding
    CODE`, `step`, `request`, `exception` or `base`. `framework` is the adapter, and `versions` are
    the versions of packages. `command` and `cwd` start the script again. `lines` contains, by file,
    lines of the files with places of the steps, as they were when the script began; a file that is
    not in it may have been changed.
    """

    run: str
    attempt: int
    worker: int
    step: int
    state_step: int
    reason: str
    note: str = ""
    created_s: UnixTime
    command: tuple[str, ...]
    cwd: str
    python: str
    framework: str
    versions: dict[str, str]
    steps: tuple[RecordedStep, ...]
    truth: ReferenceDigests | None = None
    lines: dict[str, LineDigests] = {}
    state: Tree
