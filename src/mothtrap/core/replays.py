"""Messages of a replay: the request to the process that repeats a step, and its answer."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Literal

import msgspec

PLAN_VARIABLE = "MOTHTRAP_REPLAY"
"""Environment variable with the path of the plan, in a process that replays."""
PLAN_FILE = "plan.json"
RESULT_FILE = "result.json"
UNREACHED_FILE = "unreached-{pid}.json"


class ReplayPlan(msgspec.Struct, frozen=True, kw_only=True):
    """Settings for a process that replays a step.

    `workers` are the folders of the snapshot by rank, `framework` is its adapter, empty for any;
    `scratch` is the folder for results. `device` and `dtype` convert state and inputs; None leaves
    them as recorded. `narrow`: also search for the first faulty operation and the faulty rows.
    `debug`: the user's terminal is available for a debugger, which opens at `stop_at`
    (`file:line`). `through`: the script may run steps before it reaches the recorded step. `build`:
    `module:function` that creates model and loss instead of the script. `test_file` is the file to
    which a test of the failure is written, `repro_file` the file for a script that reproduces it
    without the training. `watch`: the process itself is observed, operation by operation, if it
    cannot be copied. `rows`: replay the step with these rows of its batch only; with `repeat` they
    are repeated to fill the batch. In a step of several micro-batches, they are rows of
    `micro_batch`. `moved`: recorded places whose lines have moved because the script was changed,
    with the first and the last possible line. `edited`: files of the script were changed since the
    run.
    """

    step: int
    workers: dict[int, str]
    scratch: str
    framework: str = ""
    device: str | None = None
    dtype: str | None = None
    narrow: bool = False
    debug: bool = False
    stop_at: str | None = None
    through: bool = False
    build: str | None = None
    test_file: str | None = None
    repro_file: str | None = None
    watch: bool = False
    rows: tuple[int, ...] = ()
    repeat: bool = False
    micro_batch: int | None = None
    moved: dict[str, tuple[int, int]] = {}
    edited: bool = False


class StoredReplay(msgspec.Struct, frozen=True, kw_only=True):
    """Latest replay of a run, made at the end of the job or by `mothtrap replay`.

    `lines` are the printed lines, `result` the output of `mothtrap replay --format json`, both for
    the script of the run; `edited` are the lines of the latest replay with an edited script.
    """

    step: int
    lines: tuple[str, ...] = ()
    result: dict[str, object] = {}
    edited: tuple[str, ...] = ()

    def told(self) -> tuple[str, ...]:
        """Return all lines, marking lines of an edited script."""
        return (*self.lines, *(("with the edited script:", *self.edited) if self.edited else ()))


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """The first loss, gradient or new weight that differs from the run.

    `found` and `expected` are digests, or the text of an exception; None if there is none.
    """

    kind: Literal["loss", "gradient", "weight", "exception"]
    name: str
    found: str | None
    expected: str | None


class ReplayResult(msgspec.Struct, frozen=True, kw_only=True):
    """Result of a replay in one process.

    `reached`: the step ran up to the point where its optimizer would apply it. `match`: its losses
    and gradients (`compared` in total, `losses_compared` of them losses), or its exception, are
    bit-identical to the run; None if this is unknown, for the reason in `notes`. `losses` are its
    losses, in order. `exception` is the exception that ended it, `Type: text`, raised at
    `raised_at`. `nonfinite`: a loss or an applied gradient is not finite. `instead` describes the
    state that was reached if the step was not reached. `module`, `operation`, `location` and `rows`
    are the results of the search, and `told` describes them in words. `suspects` are rows with bad
    results, and `holder` is a tensor that was already bad, such as `weight fc.weight`, `batch_rows`
    is the size of the batch, `micro_batch` the number of the micro-batch, from 0, and `samples`
    identifies the rows in the data, if known. `uncopied`: the search was skipped, because the
    process cannot be copied. `untested`: reason why no test of the failure was written,
    `unreproduced`: reason why no script that reproduces it was written.
    """

    rank: int = 0
    reached: bool = False
    match: bool | None = None
    compared: int = 0
    losses_compared: int = 0
    difference: Difference | None = None
    losses: tuple[float, ...] = ()
    nonfinite: bool = False
    nonfinite_gradients: tuple[str, ...] = ()
    exception: str | None = None
    raised_at: str | None = None
    instead: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    module: str | None = None
    operation: str | None = None
    location: str | None = None
    told: tuple[str, ...] = ()
    suspects: tuple[int, ...] = ()
    holder: str = ""
    batch_rows: int = 0
    micro_batch: int | None = None
    samples: tuple[str, ...] = ()
    uncopied: bool = False
    untested: str = ""
    unreproduced: str = ""
    rows: tuple[int, ...] = ()
    seconds: float = 0.0


def with_localization(result: ReplayResult, found: ReplayResult) -> ReplayResult:
    """Return a result with the localization from another replay of the same step."""
    return msgspec.structs.replace(
        result,
        module=found.module,
        operation=found.operation,
        location=found.location,
        told=(*result.told, *found.told),
        rows=found.rows,
        holder=found.holder,
        batch_rows=found.batch_rows,
        micro_batch=found.micro_batch,
        untested=found.untested,
        unreproduced=found.unreproduced,
    )


def read_plan(environ: Mapping[str, str]) -> ReplayPlan:
    """Return the plan of the process with this environment."""
    return msgspec.json.decode(Path(environ[PLAN_VARIABLE]).read_bytes(), type=ReplayPlan)
