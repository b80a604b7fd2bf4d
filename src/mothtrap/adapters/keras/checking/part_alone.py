"""Run the data loading of `fit`, or the code around its steps, while the model computes nothing."""

from __future__ import annotations

import functools
import re
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

import keras
import numpy as np

from mothtrap.adapters.keras.checking.given_data import GivenData
from mothtrap.checks.part_seen import PartSeen
from mothtrap.core.error_texts import in_one_line
from mothtrap.core.working_folder import absolute
from mothtrap.tracing.snapshots.comparison import raised_at
from mothtrap.tracing.source import frames

_QUOTED = re.compile(r'File "([^"]+)", line (\d+)')


def data_alone(data: GivenData, batches: int) -> PartSeen:
    """Read batches of the data of `fit`, without the model.

    Args:
        data: data passed to `fit`.
        batches: maximum number of batches to read.
    """
    seconds: list[float] = []
    forms: dict[str, None] = {}
    error, location = "", None
    source = iter(data.stream())
    try:
        while len(seconds) < batches:
            begin = time.monotonic()
            batch = next(source)
            seconds.append(time.monotonic() - begin)
            forms.setdefault(_form(batch))
    except StopIteration:
        pass
    except Exception as err:  # exception of the user's pipeline
        error, location = in_one_line(err), raised_at(err) or _line_in(err)
    return PartSeen(
        part="data",
        turns=len(seconds),
        seconds=tuple(seconds),
        forms=tuple(forms),
        error=error,
        location=location,
    )


def _line_in(error: Exception) -> str | None:
    """Return the last line of the user's code in the text of a TensorFlow error.

    Python functions in a `tf.data` pipeline run in other frames, which the text quotes.
    """
    quoted = [(file, int(line)) for file, line in _QUOTED.findall(str(error))]
    own = [place for place in quoted if frames.is_users_file(place[0])]
    return frames.line_of(absolute(own[-1][0]), own[-1][1]) if own else None


def _form(batch: Any) -> str:
    """Return the types of the arrays of a batch, and the numbers of their axes."""
    parts = [one for one in keras.tree.flatten(batch) if hasattr(one, "dtype")]
    kinds = (f"{keras.backend.standardize_dtype(one.dtype)} with {len(one.shape)} axes"
             for one in parts)  # fmt: skip
    return ", ".join(kinds)


class CallbacksAlone:
    """Runs `fit` with steps that compute nothing, and with short epochs.

    Args:
        model: model whose `fit` runs, on the TensorFlow backend.
        limit: number of steps in each epoch, and in each evaluation.
        logs: logs of the last observed step, which callbacks receive after each further step.
        written: returns the names of the files that the script has written.
    """

    def __init__(
        self, model: Any, limit: int, logs: Mapping[str, Any], written: Callable[[], list[str]]
    ) -> None:
        self._model, self._limit, self._written = model, limit, written
        self._logs = {name: np.float32(value) for name, value in logs.items()}
        self._turns = self._epochs = self._evaluations = 0
        self._made = {True: 0, False: 0}
        self._error, self._location = "", ""

    def begin(self) -> None:
        """Replace the functions that run a step."""
        model = self._model
        model.train_function = self._answering(trains=True)
        model.test_function = self._answering(trains=False)
        model.make_train_function = model.make_test_function = lambda *_, **__: None
        self._count_epochs()
        shown = sys.excepthook

        def hook(kind: Any, error: BaseException, trace: Any) -> None:
            shown(kind, error, trace)
            self._error, self._location = in_one_line(error), raised_at(error) or ""

        sys.excepthook = hook

    def _count_epochs(self) -> None:
        """Count the ends of epochs until the process ends."""
        every: Any = keras.callbacks.CallbackList
        for name in ("on_epoch_begin", "on_test_begin", "on_epoch_end"):
            setattr(every, name, self._noticed(getattr(every, name), name))

    def _noticed(self, original: Callable[..., Any], name: str) -> Callable[..., Any]:
        @functools.wraps(original)
        def call(*args: Any, **kwargs: Any) -> Any:
            self._made[name == "on_epoch_begin"] = 0
            result = original(*args, **kwargs)
            self._epochs += name == "on_epoch_end"
            return result

        return call

    def _answering(self, *, trains: bool) -> Callable[[Any], dict[str, Any]]:
        def step(_iterator: Any) -> dict[str, Any]:
            if self._made[trains] >= self._limit:
                raise StopIteration
            self._made[trains] += 1
            self._turns += trains
            self._evaluations += not trains
            return dict(self._logs)

        return step

    def seen(self, ended: str = "") -> PartSeen:
        """Return the result of running the part; `ended` explains an early end."""
        return PartSeen(
            part="callbacks",
            turns=self._turns,
            epochs=self._epochs,
            evaluations=self._evaluations,
            files=tuple(self._written()),
            error=self._error,
            location=self._location or None,
            ended=ended,
        )
