"""Facts about a model that help to explain the exception that ended a script."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class MadeLayer:
    """A layer: name, class, the line that created it, and the number of rows of an embedding."""

    name: str
    kind: str
    location: str | None = None
    rows: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """Layers of the process, and the `fit` in which the exception arose.

    Attributes:
        layers: layers of the process.
        fitted: whether the exception arose under `fit`.
        loss: name of the function with which the model was compiled; empty if unknown.
        loss_at: the line of `compile`.
        unlabeled: whether `fit` received arrays without labels.
        find_record: function that finds the record at which a pipeline failed. It receives `record`
            for a damaged file, or `element` for a failed function, and returns a description or ''.
        record: result of `find_record`.
    """

    layers: tuple[MadeLayer, ...] = ()
    fitted: bool = False
    loss: str = ""
    loss_at: str | None = None
    unlabeled: bool = False
    find_record: Callable[[str], str] = lambda _: ""
    record: str = ""

    def layer(self, name: str) -> MadeLayer | None:
        """Return the only layer with a name; None if there are several or none."""
        return _only(layer for layer in self.layers if layer.name == name)

    def embedding(self, rows: int, node: str) -> MadeLayer | None:
        """Return the embedding with a number of rows; None if it is ambiguous.

        Args:
            rows: rows of its table.
            node: name of the operation in the graph, `model_1/words_1/GatherV2`; may be empty.
        """
        found = [layer for layer in self.layers if layer.rows == rows]
        parts = node.split("/")
        named = [one for one in found if any(_is_scope(part, one.name) for part in parts)]
        exact = [one for one in named if one.name in parts]
        return _only(found) or _only(named) or _only(exact)


def told(layer: MadeLayer) -> str:
    """Return a layer as text: `Embedding "words" (made at train.py:3)`."""
    made = f" (made at {layer.location})" if layer.location else ""
    return f'{layer.kind} "{layer.name}"{made}'


def _is_scope(part: str, name: str) -> bool:
    """Return whether a part of an operation's name is a layer's, with or without a number."""
    rest = part.removeprefix(name)
    return part.startswith(name) and (not rest or rest.removeprefix("_").isdigit())


def _only(found: Iterable[MadeLayer]) -> MadeLayer | None:
    several = list(found)
    return several[0] if len(several) == 1 else None
