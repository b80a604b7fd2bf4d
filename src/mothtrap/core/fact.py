"""Base class of facts, and the decoding of stored facts.

A fact is an event or property that an adapter reports occasionally, and that rules evaluate. Facts
use the terms of no framework: an adapter translates operations into `softmax`, `log_softmax`,
`sigmoid`, `linear`, `view`, `cast`, `expand` ... Classes are found by tag in `mothtrap.core.facts`
and in the entry points of the same name.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

import msgspec

from mothtrap.core import jsonable, registry
from mothtrap.core.errors import PluginError
from mothtrap.core.steps import Mode

PACKAGE = "mothtrap.core.facts"


class Fact(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Base of all facts.

    `step` is the step of the observation (see `StepKey`), and `mode` the mode of that step.
    """

    step: int
    mode: Mode = Mode.TRAIN


class UnknownFact(Fact, frozen=True, kw_only=True, tag=True):
    """A stored fact whose class is not installed; `fields` are the stored values.

    `tag` is the name under which the class would be found.
    """

    tag: str
    fields: dict[str, Any] = {}


def tag_of(fact: Fact | type[Fact]) -> str:
    """Return the name under which a fact is stored: the tag of its class."""
    return fact.tag if isinstance(fact, UnknownFact) else str(fact.__struct_config__.tag)


def fact_types() -> dict[str, type[Fact]]:
    """Return all installed fact classes, by tag."""
    return _installed()[0]


def unusable() -> tuple[PluginError, ...]:
    """Return the reasons why fact modules of other packages cannot be used."""
    return _installed()[1]


def decode(tag: str, text: str | bytes) -> Fact:
    """Decode a fact from JSON; return an `UnknownFact` if no class has the tag.

    Raises:
        msgspec.DecodeError: the text is not JSON, or does not fit the class of the tag.
    """
    kind = fact_types().get(tag)
    if kind is not None:
        return jsonable.decode(text, kind)
    return _unknown(tag, jsonable.decode(text, dict[str, Any]))


def restored(values: dict[str, Any]) -> Fact:
    """Create a fact from plain values, including its tag (`type`).

    Raises:
        msgspec.ValidationError: the values do not fit the class of the tag.
    """
    tag = str(values.get("type", ""))
    kind = fact_types().get(tag)
    if kind is not None:
        jsonable.decoder(kind)
        return msgspec.convert(values, kind, strict=False)
    return _unknown(tag, values)


def to_json(fact: Fact) -> str:
    """Encode a fact as JSON that `decode` can read."""
    if isinstance(fact, UnknownFact):
        key = {"type": fact.tag, "step": fact.step, "mode": fact.mode.value}
        return jsonable.text({**key, **fact.fields})
    return jsonable.text(fact)


def _unknown(tag: str, values: dict[str, Any]) -> UnknownFact:
    key: dict[str, Any] = {name: values[name] for name in ("step", "mode") if name in values}
    fields = {name: value for name, value in values.items() if name not in (*key, "type")}
    plain: dict[str, Any] = {**key, "type": UnknownFact.__name__, "tag": tag, "fields": fields}
    return msgspec.convert(plain, UnknownFact)


@functools.cache
def _installed() -> tuple[dict[str, type[Fact]], tuple[PluginError, ...]]:
    """Return facts by tag, and the modules of other distributions that cannot be used."""
    found: dict[str, type[Fact]] = {}
    errors: list[PluginError] = []
    for part in registry.parts(PACKAGE):
        try:
            kinds = dict(_facts_in(part))
            if twice := sorted(found.keys() & kinds.keys()):
                raise part.fault(f"the fact {twice[0]} is already installed")
        except PluginError as err:
            errors.append(err)
        else:
            found |= kinds
    return found, tuple(errors)


def _facts_in(part: registry.Part) -> Iterator[tuple[str, type[Fact]]]:
    """Return the facts that a module defines, by tag."""
    module = part.load()
    for value in vars(module).values():
        if (
            isinstance(value, type)
            and issubclass(value, Fact)
            and value.__module__ == module.__name__
        ):
            yield tag_of(value), value
