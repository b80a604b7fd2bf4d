"""Models and their data, described when a training or an evaluation begins."""

from __future__ import annotations

import math
import os
import weakref
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Real
from typing import Any, Final

import keras
import msgspec
import numpy as np
import numpy.typing as npt
import tensorflow as tf

from mothtrap.adapters.keras import layers, losses, names, optimizers, wiring
from mothtrap.adapters.keras.modelcalls import MAX_CELLS, ModelCalls, scale
from mothtrap.adapters.keras.weights import value_of
from mothtrap.adapters.tensorflow.looks import Look
from mothtrap.adapters.tensorflow.names import Parts, reshuffled_by, split_apart
from mothtrap.core.adapters import Job
from mothtrap.core.facts.data import LoaderBegan, NonfiniteInput, RowsShared
from mothtrap.core.facts.functions import ModelCompiled
from mothtrap.core.facts.losses import TokenShares
from mothtrap.core.facts.modules import FrozenParameters
from mothtrap.core.facts.pipelines import SplitReshuffled
from mothtrap.core.steps import Mode
from mothtrap.core.window import Bools
from mothtrap.statistics import numpy as arithmetic
from mothtrap.tracing.copied_rows import KNOWN_REPEATED, LEAST_REPEATED, MAX_ROWS, RowSample
from mothtrap.tracing.loss_looks import MAX_CONFUSED, Called

Array = npt.NDArray[Any]
MAX_TOKENS: Final = 1 << 20
MAX_SHARES: Final = 16
DEFAULT_BATCH: Final = 32
SHOWN: Final = 8
MAX_KEPT: Final = 1 << 20
"""Rows of earlier trainings that are remembered."""
MAX_FITS: Final = 32
"""Trainings of a model whose rows are remembered: more of them are steps of a loop."""
HARDLY: Final = 0.5
"""Known rows among those that an evaluation has once, relative to those that it repeats, up to
which these were copied before the split; chosen by hand."""
PARTS: Final = ("x", "y", "sample_weight")
"""Arguments of `fit` that make a batch."""


@dataclass(slots=True, eq=False)
class Fit:
    """One call of `fit`: its line, what it was given, and digests of the rows.

    `weighted`: it was given weights of rows or classes; `class_weights` has the number of each
    class, None = not weighed. `shuffles`: those that it was given a part of.
    `earlier`: rows of earlier ones of the model, where this one goes on with their weights.
    `compared`: names of the evaluations whose rows were looked for.
    """

    model: Any
    location: str | None
    label: str
    digests: npt.NDArray[np.uint64] | None = None
    earlier: npt.NDArray[np.uint64] | None = None
    compared: set[str] = field(default_factory=set)
    duplicates: float = 0.0
    weighted: bool = False
    class_weights: tuple[float, ...] | None = None
    shuffles: Sequence[tuple[weakref.ref[Any], Parts]] = ()


@dataclass(slots=True, eq=False)
class _Trained:
    """Rows that a model was trained on in some `fits`, and a sum of weights behind the last."""

    fits: int
    digests: npt.NDArray[np.uint64] | None = None
    state: float | None = None


def began(model: Any, location: str | None) -> Fit:
    """Return a `fit` that begins."""
    return Fit(model=model, location=location, label=_label_of(location))


def weights_by_class(weights: Any) -> tuple[float, ...] | None:
    """Return the weights of classes that `fit` was given, in order; those not named weigh 1.

    None where there are none, empty where these are more than 20, or such that Keras complains.
    """
    if not weights:
        return None
    if not isinstance(weights, dict):
        return ()
    numbers = (*weights, *weights.values())
    if not all(isinstance(one, Real) and math.isfinite(one) for one in numbers):
        return ()
    last = int(max(weights))
    if last >= MAX_CONFUSED:
        return ()
    return tuple(float(weights.get(label, 1.0)) for label in range(last + 1))


def _label_of(location: str | None) -> str:
    return f"fit {os.path.basename(location or '')}".strip()


class Models:
    """Reports models and arrays.

    Args:
        job: takes the facts.
        calls: told of models whose inputs are reported here.
    """

    def __init__(self, job: Job, calls: ModelCalls) -> None:
        self._job, self._calls = job, calls
        self._described: set[tuple[int, ...]] = set()
        self._nonfinite: set[tuple[int, str]] = set()
        self._bad: list[NonfiniteInput] = []
        self._said = False
        self._evaluated: set[tuple[str, str]] = set()
        self._trained: weakref.WeakKeyDictionary[Any, _Trained] = weakref.WeakKeyDictionary()

    def data(self, fit: Fit, given: Mapping[str, Any]) -> LoaderBegan | None:
        """Report the arrays of a `fit`; None where they are not arrays."""
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
        if rows is None:
            fit.shuffles = [(weakref.ref(one), parts) for one, parts in _shuffles(given.get("x"))]
            return loader
        for name, arrays in (("x", x), ("y", y)):
            for place, array in enumerate(arrays):
                self._search(_label(name, place, arrays), array, fit.label, fit.location)
        for place, array in enumerate(x):
            self._distribution(fit.model, place, array[:rows], Mode.TRAIN, fit.location)
        self._count_tokens(fit.model, x)
        digest_R = _row_digests(x[0][:rows])
        if digest_R is not None:
            fit.digests = np.unique(digest_R)
            fit.duplicates = 1.0 - len(fit.digests) / len(digest_R)
            before = self._trained.get(fit.model)
            if (
                before is not None
                and before.state is not None
                and before.state == _state_of(fit.model)
            ):
                fit.earlier = before.digests
        return loader

    def fitted(self, fit: Fit) -> None:
        """Remember what a `fit` that ends has trained on, and report what it leaves."""
        optimizer = getattr(fit.model, "optimizer", None)
        averaged = optimizers.averaged_weights(optimizer, self._job.now.step)
        if averaged is not None:
            self._job.fact(averaged)
        before = self._trained.get(fit.model)
        ended = self._trained[fit.model] = _Trained(before.fits + 1 if before is not None else 1)
        if fit.digests is None or ended.fits > MAX_FITS:
            return
        every = [fit.digests] if fit.earlier is None else [fit.digests, fit.earlier]
        if sum(map(len, every)) <= MAX_KEPT:
            ended.digests, ended.state = np.unique(np.concatenate(every)), _state_of(fit.model)

    def _count_tokens(self, model: Any, x: Sequence[Array]) -> None:
        """Report the shares of tokens, where an embedding reads them and none is masked."""
        leaves = list(names.leaves(model))
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
            fit: in progress, or the latest one of the model.
            model: that is evaluated.
            given: arguments of `evaluate`.
            name: of the evaluation.

        Returns:
            Rows, and the labels; None where unknown.
        """
        x, y = _arrays(given.get("x")), _arrays(given.get("y"))
        if not x:
            self._report_split(fit, given.get("x"), name)
            return None, None
        key = (fit.label if fit else "", name)
        if key not in self._evaluated:
            self._evaluated.add(key)
            for place, array in enumerate(x):
                self._distribution(model, place, array, Mode.EVAL, fit.location if fit else None)
        if fit is not None and fit.digests is not None and name not in fit.compared:
            fit.compared.add(name)
            self._share(fit, x[0], name, alone=len(x) == 1)
        return len(x[0]), _labels(model, y[0]) if len(y) == 1 else None

    def _report_split(self, fit: Fit | None, data: Any, name: str) -> None:
        """Report pipelines of training and evaluation that are parts of one shuffle."""
        if fit is None or (fit.label, name) in self._evaluated:
            return
        theirs = list(_shuffles(data))
        for shuffle, ours in fit.shuffles:
            if any(shuffle() is one and split_apart(ours, parts) for one, parts in theirs):
                self._evaluated.add((fit.label, name))
                step = self._job.now.step
                self._job.fact(SplitReshuffled(step=step, source=name, location=fit.location))
                return

    def describe(self, model: Any, *, scaled: bool | None, location: str | None) -> None:
        """Report a model that has made a step, again when it was compiled anew."""
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
                whole_process=names.runs_all_eagerly(),
                jit_compile=bool(model.jit_compile),
                steps_per_execution=int(model.steps_per_execution or 1),
                policy=str(model.dtype_policy.name),
                loss_scaled=scaled,
                linear_layers=tuple(layers.name_of(layer) for layer in linear),
                linear_location=layers.LOCATIONS.get(linear[0]) if linear else None,
                location=layers.COMPILED.get(model, location),
            )
        )
        self._tell_frozen(model)

    def tell_left_out(self, looks: Sequence[Look], given: Collection[int]) -> None:
        """Report models of which optimizers do not hold all weights.

        Args:
            looks: at a step.
            given: identities of the variables that optimizers hold.
        """
        roots = {id(call.root): call.root for look in looks for call in look.layers}
        for root in roots.values():
            held = [variable for variable in root.trainable_variables if id(variable) in given]
            if len(held) < len(root.trainable_variables):
                self._tell_frozen(root, given)

    def _tell_frozen(self, model: Any, given: Collection[int] | None = None) -> None:
        frozen = [
            layer
            for layer in names.leaves(model)
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
        """Report, at the first loss that is not finite, what the arrays lack, else its batch."""
        if self._said:
            return
        bad = [msgspec.structs.replace(found, step=step) for found in self._bad]
        for name, part in zip(PARTS, batch if isinstance(batch, tuple) else (batch,), strict=False):
            arrays = [] if bad else _arrays(part) or []
            found = (
                _nonfinite(step, _label(name, place, arrays), array, _label_of(location), location)
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

    def _share(self, fit: Fit, array: Array, name: str, *, alone: bool) -> None:
        digest_R = _row_digests(array)
        if fit.digests is None or digest_R is None:
            return
        trained, is_earlier = fit.digests, False
        known_R = np.isin(digest_R, trained)
        if fit.earlier is not None:
            before_R = np.isin(digest_R, fit.earlier)
            is_earlier = bool(before_R.mean() > 2 * known_R.mean())
            if is_earlier:
                trained, known_R = fit.earlier, before_R
        _, row_N, count_N = np.unique(digest_R, return_index=True, return_counts=True)
        known_N = known_R[row_N]
        copied = alone and not is_earlier and _only_repeated_are_known(known_N, count_N)
        self._job.fact(
            RowsShared(
                step=self._job.now.step,
                module=str(fit.model.name),
                argument="x",
                source=name,
                train_rows=len(trained),
                eval_rows=len(known_N),
                shared=int(known_N.sum()),
                expected_share=fit.duplicates,
                copied=copied and _are_copies(array, digest_R, known_R),
                earlier=is_earlier,
                share_of_all=float(known_R.mean()),
                location=fit.location,
            )
        )


def _shuffles(data: Any) -> Iterator[tuple[Any, Parts]]:
    """Yield the shuffles that a data set is a part of, with the parts."""
    if isinstance(data, tf.data.Dataset):
        yield from reshuffled_by(data)


def _is_trained(layer: Any, given: Collection[int] | None) -> bool:
    """Return whether an optimizer is given a weight of a layer; None: it is given them all."""
    return given is None or any(id(variable) in given for variable in layer.trainable_variables)


def _state_of(model: Any) -> float | None:
    """Return a number that changes with the weights; None where there are none yet."""
    smallest = min(model.trainable_variables, key=lambda one: math.prod(one.shape), default=None)
    return float(value_of(smallest).sum(dtype=np.float64)) if smallest is not None else None


def _labels(model: Any, y: Array) -> Called | None:
    """Return hard labels as a call of the model's loss; None for other targets."""
    loss = model.loss
    try:
        loss = keras.losses.get(loss) if isinstance(loss, str) else loss
    except ValueError:
        return None
    name = losses.name_of(loss) if not callable(loss) or hasattr(loss, "fn") else ""
    name = name or str(getattr(loss, "__name__", ""))
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
    )


def _arrays(given: Any) -> list[Array]:
    """The arrays that an argument of `fit` holds, if all are ones of numpy or can be read so."""
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
            array = names.eager_array(array)
        if array is None or not array.ndim or array.dtype.kind not in "fiub" or not len(array):
            return []
        found.append(array)
    return found


def _label(name: str, place: int, arrays: Sequence[Array]) -> str:
    return name if len(arrays) == 1 else f"{name}[{place}]"


def _nonfinite(
    step: int, name: str, array: Array, source: str, location: str | None
) -> NonfiniteInput | None:
    """Return what is not finite in an array; None where all is."""
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


def _row_digests(array: Array) -> npt.NDArray[np.uint64] | None:
    """Return a digest of each row; None of what has none, or is too large."""
    if array.ndim < 2 or not array.size or array.size > MAX_CELLS or array.dtype.kind not in "fiu":
        return None
    plain = np.ascontiguousarray(array.reshape(len(array), -1))
    return arithmetic.row_digests(plain, plain.shape[1])


def _only_repeated_are_known(known_N: Bools, count_N: npt.NDArray[np.int64]) -> bool:
    """Return whether rows that an evaluation repeats were trained on, and hardly any other.

    Args:
        known_N: which of its distinct rows were trained on.
        count_N: how often it has each.
    """
    repeated, once = known_N[count_N > 1], known_N[count_N == 1]
    if len(repeated) < LEAST_REPEATED or repeated.mean() < KNOWN_REPEATED:
        return False
    return not len(once) or bool(once.mean() <= HARDLY * repeated.mean())


def _are_copies(array: Array, digest_R: npt.NDArray[np.uint64], known_R: Bools) -> bool:
    """Return whether the rows of an evaluation that were trained on are equal by no chance."""
    half = MAX_ROWS // 2
    chosen = np.concatenate([np.flatnonzero(known_R)[:half], np.flatnonzero(~known_R)[:half]])
    sample = RowSample()
    sample.add(array[chosen], digest_R[chosen])
    return sample.are_copies(digest_R[known_R])
