"""Tensors of Gluon forwards that collections request: of layers, whole models, and losses."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

import numpy as np
from mxnet.ndarray import NDArray

from mothtrap.adapters.mxnet.forward import Forward, LayerCall
from mothtrap.core.adapters import Job
from mothtrap.core.steps import Mode
from mothtrap.core.tensors import Role, TensorInfo

OF_FORWARDS: Final = ("activation", "input", "output")
SATURATING: Final = ("sigmoid", "tanh")
Named = tuple[TensorInfo, NDArray]


class ForwardTensors:
    """Captures the tensors of forward passes that are due.

    Args:
        job: receives the arrays.
    """

    def __init__(self, job: Job) -> None:
        self._job = job
        self._ids: dict[tuple[str, str], int] = {}

    def are_due(self, mode: Mode = Mode.TRAIN) -> bool:
        """Return whether layer data must be stored."""
        return any(self._job.wants(kind, mode) for kind in OF_FORWARDS)

    def trained(self, forward: Forward) -> None:
        """Capture the tensors of a step's forward passes, and the labels of its losses."""
        if self.are_due():
            with self._job.forward():
                self.take(forward.calls, Mode.TRAIN)
                self._take_whole(forward.latest, forward.given, forward.gave, Mode.TRAIN)
        if self._job.wants("label"):
            labels = [args[1] for _, args, _ in forward.losses if len(args) > 1]
            self._hand_on("label", _numbered("label", "label", labels), Mode.TRAIN)

    def evaluated(self, root: Any, given: Sequence[Any], gave: Any, calls: list[LayerCall]) -> None:
        """Capture the tensors of an evaluation forward pass, inside `Job.forward`."""
        self.take(calls, Mode.EVAL)
        self._take_whole(root, given, gave, Mode.EVAL)

    def take(self, calls: Sequence[LayerCall], mode: Mode) -> None:
        """Capture the inputs and outputs of layers."""
        for kind in ("activation", "input"):
            if self._job.wants(kind, mode):
                found = {call.layer.name: (call, _of(kind, call)) for call in calls}
                named = [
                    (_info(kind, name, array, call.layer), array)
                    for name, (call, array) in found.items()
                ]
                self._hand_on(kind, named, mode)

    def _take_whole(self, root: Any, given: Sequence[Any], gave: Any, mode: Mode) -> None:
        """Capture the inputs and outputs of a model, which may be hybridized."""
        if root is None:
            return
        gave = gave if isinstance(gave, list | tuple) else [gave]
        for kind, values in (("input", given), ("output", gave)):
            if self._job.wants(kind, mode):
                self._hand_on(kind, _numbered(kind, root.name, values), mode)

    def _hand_on(self, kind: str, named: Iterable[Named], mode: Mode) -> None:
        ids: list[int] = []
        arrays: list[Any] = []
        for info, array in named:
            key = kind, info.name
            if key not in self._ids:
                self._ids[key] = self._job.define(info)
            if self._job.wants(kind, mode, ids=[self._ids[key]]):
                ids.append(self._ids[key])
                arrays.append(array.asnumpy())
        if ids:
            self._job.take(kind, ids, arrays, mode=mode)


def role_of(layer: Any) -> Role:
    """Return the role of a layer for rules, such as `rectifier`."""
    function = getattr(layer, "_act_type", "")
    return "rectifier" if function == "relu" else "saturating" if function in SATURATING else ""


def _of(kind: str, call: LayerCall) -> NDArray:
    return call.given if kind == "input" else call.gave


def _info(kind: str, name: str, array: NDArray, layer: Any) -> TensorInfo:
    return TensorInfo(
        kind=kind,
        name=name,
        module=name,
        module_type=type(layer).__name__,
        role=role_of(layer) if kind == "activation" else "",
        shape=array.shape,
        dtype=np.dtype(array.dtype).name,
    )


def _numbered(kind: str, name: str, values: Sequence[Any]) -> list[Named]:
    """Return the arrays among the tensors of a model by name, numbered from the second on."""
    arrays = [value for value in values if isinstance(value, NDArray)]
    return [
        (
            TensorInfo(
                kind=kind,
                name=f"{name}.{place}" if place else name,
                module="" if kind == "label" else name,
                shape=array.shape,
                dtype=np.dtype(array.dtype).name,
                of_root=True,
            ),
            array,
        )
        for place, array in enumerate(arrays)
    ]
