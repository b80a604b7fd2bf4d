"""Descriptions of models and their data, when training or an evaluation begins."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

import keras
import msgspec
import numpy as np
import numpy.typing as npt

from mothtrap.adapters.keras import (
    internals,
    layers,
    losses,
    optimizers,
    states_kept,
    wiring,
)
from mothtrap.adapters.keras.fits import Fit, label_of
from mothtrap.adapters.keras.model_calls import ModelCalls, scale
from mothtrap.adapters.keras.rows import Rows
from mothtrap.adapters.keras.weights import value_of
from mothtrap.adapters.tensorflow.probes.probes import Look
from mothtrap.core.adapters import Job
from mothtrap.core.facts.data import LoaderBegan, NonfiniteInput
from mothtrap.core.facts.functions import ModelCompiled
from mothtrap.core.facts.losses import TokenShares
from mothtrap.core.facts.modules import FrozenParameters
from mothtrap.core.steps import Mode
from mothtrap.tracing.describe.input_scales import MAX_CELLS
from mothtrap.tracing.describe.loss_numbers import Called

Array = npt.NDArray[Any]
MAX_TOKENS: Final = 1 << 20
MAX_SHARES: Final = 16
DEFAULT_BATCH: Final = 32
SHOWN: Final = 8
PARTS: Final = ("x", "y", "sample_weight")
"""Arguments of `fit` that make up a batch."""


class Models:
    """Reports models and arrays.

    Args:
        job: receives the facts.
        calls: notified of models whose inputs are reported here.
    """

    def __init__(self, job: Job, calls: ModelCalls) -> None:
        self._job, self._calls = job, calls
        self._described: set[tuple[int, ...]] = set()
        self._nonfinite: set[tuple[int, str]] = set()
        self._bad: list[NonfiniteInput] = []
        self._said = False
        self._evaluated: set[tuple[str, str]] = set()
        self._rows = Rows(job)

    def data(self, fit: Fit, given: Mapping[str, Any]) -> LoaderBegan | None:
        """Report the arrays passed to `fit`; None if they are not arrays."""
        x, y = _arrays(given.get("x")), _arrays(given.get("y"))
        rows = len(x[0]) if x else None
        batch = int(given.get("batch_size") or DEFAULT_BATCH)
        sampler = "own"
        if rows is not None:
            sampler = "shuffled" if given.get("shuffle", True) else "sequential"
            rows = max(1, int(rows * (1 - float(given.get("validation_split") or 0.0))))
        loader = LoaderBegan(
            step=self._job.now.step,
            loader=fit.label,
            sampler=sampler,
            samples=rows,
            batch_size=batch if rows is not None else None,
            batches=-(-rows // batch) if rows is not None else None,
            location=fit.location,
        )
        self._job.fact(loader)
        kept = states_kept.by(fit, given, loader)
        if kept is not None:
            self._job.fact(kept)
        if rows is None:
            self._rows.piped(fit, given.get("x"))
            return loader
        for name, arrays in (("x", x), ("y", y)):
            for place, array in enumerate(arrays):
                self._search(_label(name, place, arrays), array, fit.label, fit.location)
        for place, array in enumerate(x):
            self._distribution(fit.model, place, array[:rows], Mode.TRAIN, fit.location)
        self._count_tokens(fit.model, x)
        self._rows.given(fit, x[0][:rows])
        return loader

    def fitted(self, fit: Fit) -> None:
        """Record the training data of a `fit` that ends, and report its results."""
        optimizer = getattr(fit.model, "optimizer", None)
        averaged = optimizers.averaged_weights(optimizer, self._job.now.step)
        if averaged is not None:
            self._job.fact(averaged)
        self._rows.fitted(fit)

    def _count_tokens(self, model: Any, x: Sequence[Array]) -> None:
        """Report the shares of tokens if an embedding reads them and none is masked."""
        leaves = list(internals.leaves(model))
        embeddings = [layer for layer in leaves if layers.looks_up(layer)]
        masks = any(isinstance(layer, keras.layers.Masking) for layer in leaves)
        if not embeddings or masks or any(layer.mask_zero for layer in embeddings):
            return
        for place, tokens in enumerate(x):
            if tokens.dtype.kind not in "iu" or tokens.ndim != 2 or tokens.shape[1] < 4:
                continue
            values, counts = np.unique(tokens.reshape(-1)[:MAX_TOKENS], return_counts=True)
            most, total = counts.argsort()[::-1][:MAX_SHARES], int(counts.sum())
            shares = {int(values[one]): float(counts[one]) / total for one in most}
            self._job.fact(
                TokenShares(
                    step=self._job.now.step, argument=str(place), count=total, shares=shares
                )
            )

    def evaluated(
        self, fit: Fit | None, model: Any, given: Mapping[str, Any], name: str
    ) -> tuple[int | None, Called | None]:
        """Report the arrays of an evaluation.

        Args:
            fit: fit in progress, or the latest one of the model.
            model: model that is evaluated.
            given: arguments of `evaluate`.
            name: name of the evaluation.

        Returns:
            Rows, and the targets; None if unknown.
        """
        x, y = _arrays(given.get("x")), _arrays(given.get("y"))
        if not x:
            self._rows.evaluated_pipeline(fit, given.get("x"), name)
            return None, None
        key = (fit.label if fit else "", name)
        if key not in self._evaluated:
            self._evaluated.add(key)
            for place, array in enumerate(x):
                self._distribution(model, place, array, Mode.EVAL, fit.location if fit else None)
        self._rows.evaluated(fit, x[0], name, alone=len(x) == 1)
        return len(x[0]), _targets(model, y[0]) if len(y) == 1 else None

    def describe(self, model: Any, *, scaled: bool | None, location: str | None) -> None:
        """Report a model that has made a step, and again after it was recompiled."""
        key = id(model), id(getattr(model, "optimizer", None)), len(model.trainable_variables)
        if key in self._described:
            return
        self._described.add(key)
        linear = wiring.linear_layers(model)
        self._job.fact(
            ModelCompiled(
                step=self._job.now.step,
                model=str(model.name),
                model_type=layers.type_of(model),
                runs_eagerly=bool(model.run_eagerly),
                whole_process=internals.runs_all_eagerly(),
                jit_compile=bool(model.jit_compile),
                steps_per_execution=int(model.steps_per_execution or 1),
                policy=str(model.dtype_policy.name),
                loss_scaled=scaled,
                linear_layers=tuple(layers.name_of(layer) for layer in linear),
                linear_location=layers.LOCATIONS.get(linear[0]) if linear else None,
                location=layers.COMPILED.get(model, location),
            )
        )
        self._report_frozen(model)

    def tell_left_out(self, looks: Sequence[Look], given: Collection[int]) -> None:
        """Report models with weights that no optimizer holds.

        Args:
            looks: observations of a step.
            given: identities of the variables in optimizers.
        """
        roots = {id(call.root): call.root for look in looks for call in look.layers}
        for root in roots.values():
            held = [variable for variable in root.trainable_variables if id(variable) in given]
            if len(held) < len(root.trainable_variables):
                self._report_frozen(root, given)

    def _report_frozen(self, model: Any, given: Collection[int] | None = None) -> None:
        frozen = [
            layer
            for layer in internals.leaves(model)
            if layer.weights and not (layer.trainable and _is_trained(layer, given))
        ]
        frozen = [layer for layer in frozen if not layers.normalizes(layer)]
        if not frozen:
            return
        judged = untouched = 0
        found: list[tuple[int, str]] = []
        for layer in frozen:
            kernel = layers.kernel_of(layer)
            if kernel is None:
                continue
            fresh = layers.looks_untouched(kernel, layer, value_of(kernel))
            size = math.prod(kernel.shape)
            judged += size if fresh is not None else 0
            untouched += size if fresh else 0
            if fresh:
                found.append((size, layers.name_of(layer)))
        self._job.fact(
            FrozenParameters(
                step=self._job.now.step,
                root=str(model.name),
                elements=sum(math.prod(v.shape) for v in model.weights),
                frozen=sum(math.prod(v.shape) for layer in frozen for v in layer.weights),
                judged=judged,
                untouched=untouched,
                modules=tuple(name for _, name in sorted(found, reverse=True)[:SHOWN]),
                unowned=given is not None,
                location=layers.LOCATIONS.get(model),
            )
        )

    def _search(self, name: str, array: Array, source: str, location: str | None) -> None:
        if array.size > MAX_CELLS or (id(array), name) in self._nonfinite:
            return
        self._nonfinite.add((id(array), name))
        found = _nonfinite(self._job.now.step, name, array, source, location)
        if found is not None:
            found = msgspec.structs.replace(found, samples=found.rows)
            self._bad.append(found)
            self._job.fact(found)

    def broke(self, step: int, batch: Any, location: str | None) -> None:
        """Report, at the first non-finite loss, faults in the arrays or the batch."""
        if self._said:
            return
        bad = [msgspec.structs.replace(found, step=step) for found in self._bad]
        for name, part in zip(PARTS, batch if isinstance(batch, tuple) else (batch,), strict=False):
            arrays = [] if bad else _arrays(part) or []
            found = (
                _nonfinite(step, _label(name, place, arrays), array, label_of(location), location)
                for place, array in enumerate(arrays)
            )
            bad += [each for each in found if each is not None]
        for each in bad:
            self._job.fact(each)
        self._said = bool(bad)

    def _distribution(
        self, model: Any, place: int, array: Array, mode: Mode, location: str | None
    ) -> None:
        found = scale(model, place, array, mode, self._job.now.step, location)
        if found is not None:
            self._calls.told(model, mode)
            self._job.fact(found)


def _is_trained(layer: Any, given: Collection[int] | None) -> bool:
    """Return whether an optimizer has a weight of a layer; None: the optimizer has all weights."""
    return given is None or any(id(variable) in given for variable in layer.trainable_variables)


def _targets(model: Any, y: Array) -> Called | None:
    """Return the targets of an evaluation as a loss call; None for unknown losses."""
    loss = model.loss
    try:
        loss = keras.losses.get(loss) if isinstance(loss, str) else loss
    except ValueError:
        return None
    name = losses.name_of(loss) if not callable(loss) or hasattr(loss, "fn") else ""
    name = name or str(getattr(loss, "__name__", ""))
    if name == "mean_squared_error":
        return Called(
            operation="elementwise", chain=(), classes=None, target=y, prediction=y, squared=1.0
        )
    if name == "sparse_categorical_crossentropy":
        labels = y.reshape(-1).astype(np.int64)
    elif name == "categorical_crossentropy" and y.ndim == 2:
        labels = y.argmax(axis=1)
    elif name == "binary_crossentropy" and y.size == len(y):
        labels = y.reshape(-1)
    else:
        return None
    binary = name.startswith("binary")
    return Called(
        operation="binary" if binary else "cross_entropy",
        chain=(),
        classes=2 if binary else int(labels.max()) + 1,
        target=labels,
        prediction=labels,
        smoothing=losses.smoothing_of(loss),
    )


def _arrays(given: Any) -> list[Array]:
    """Return the arrays in an argument of `fit`, if all can be read as NumPy arrays."""
    parts: Sequence[Any] = (
        list(given.values())
        if isinstance(given, dict)
        else list(given)
        if isinstance(given, list | tuple)
        else [given]
    )
    found = []
    for part in parts:
        array = part.to_numpy() if hasattr(part, "to_numpy") else part
        if not isinstance(array, np.ndarray):
            array = internals.eager_array(array)
        if array is None or not array.ndim or array.dtype.kind not in "fiub" or not len(array):
            return []
        found.append(array)
    return found


def _label(name: str, place: int, arrays: Sequence[Array]) -> str:
    return name if len(arrays) == 1 else f"{name}[{place}]"


def _nonfinite(
    step: int, name: str, array: Array, source: str, location: str | None
) -> NonfiniteInput | None:
    """Describe the non-finite values of an array; None if there are none."""
    if array.dtype.kind != "f":
        return None
    bad = ~np.isfinite(array)
    if not bad.any():
        return None
    rows = np.flatnonzero(bad.reshape(len(array), -1).any(axis=1))
    nan = int(np.isnan(array).sum())
    return NonfiniteInput(
        step=step,
        tensor=name,
        source=source,
        from_loader=True,
        nan=nan,
        inf=int(bad.sum()) - nan,
        rows=tuple(rows[:SHOWN].tolist()),
        row_count=len(rows),
        location=location,
    )
