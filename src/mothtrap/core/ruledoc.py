"""Parser of a rule's docstring, which is the only source of the rule's documentation."""

from __future__ import annotations

import functools
import inspect
import textwrap
from collections.abc import Collection, Iterator
from dataclasses import dataclass

HEADINGS = (
    "What it detects",
    "Why it matters",
    "Fires",
    "Stays quiet",
    "What to do",
    "Example",
    "References",
)

USERS = {
    "Keras": frozenset({"keras", "tensorflow", "tf_keras"}),
    "JAX": frozenset({"jax"}),
    "PyTorch": frozenset({"torch", "mxnet"}),  # gluon works as PyTorch does
    "LightGBM": frozenset({"lightgbm"}),
    "CatBoost": frozenset({"catboost"}),
    "XGBoost": frozenset({"xgboost"}),
    "scikit-learn": frozenset({"sklearn"}),
}
"""Words that begin a bullet of `What to do` (`Keras: ...`, `LightGBM, CatBoost: ...`) for the users
of some adapters only. A library comes before the library that it is built on.
"""
USUAL = ("PyTorch", "XGBoost")
"""Framework whose bullets are shown if the framework is unknown, or has no bullets."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleDoc:
    """Sections of a rule's docstring by heading; text as written, dedented."""

    summary: str
    sections: dict[str, str]

    @property
    def why(self) -> str:
        """`Why it matters` as one line."""
        return " ".join(self.sections.get("Why it matters", "").split())

    @property
    def fixes(self) -> tuple[str, ...]:
        """Bullets of `What to do` for an unknown framework."""
        return self.fixes_for()

    def fixes_for(self, adapters: Collection[str] = ()) -> tuple[str, ...]:
        """Return the bullets of `What to do` for users of some adapters, most likely first.

        Args:
            adapters: names of adapters; empty if the framework is unknown.

        Returns:
            One line per bullet: bullets for all users, and bullets for users of one library.
        """
        return tuple(self.fixes_by_place(adapters).values())

    def fixes_by_place(self, adapters: Collection[str] = ()) -> dict[int, str]:
        """Return the bullets of `fixes_for` by their position among all bullets, from 0."""
        bullets = list(self.bullets())
        named = {word for words, _ in bullets for word in words}
        own = [w for w, names in USERS.items() if w in named and not names.isdisjoint(adapters)]
        words = {"", *own[:1]} if adapters else {"", *USUAL}
        found = {n: text for n, (of, text) in enumerate(bullets) if not words.isdisjoint(of)}
        usual = {n: text for n, (of, text) in enumerate(bullets) if not of.isdisjoint(USUAL)}
        return found or usual

    def bullets(self) -> Iterator[tuple[frozenset[str], str]]:
        """Yield the bullets, each with the names of the libraries it applies to; empty = all."""
        for bullet in ("\n" + self.sections.get("What to do", "")).split("\n- ")[1:]:
            text = " ".join(bullet.split())
            head, _, rest = text.partition(": ")
            words = frozenset(head.split(", "))
            yield (words, rest) if USERS.keys() >= words else (frozenset({""}), text)


@functools.cache
def parse_doc(text: str) -> RuleDoc:
    """Split a docstring at its headings (a line that is one of `HEADINGS` and ':')."""
    lines = inspect.cleandoc(text).split("\n")
    sections: dict[str, list[str]] = {"": []}
    current = ""
    for line in lines:
        if line.rstrip().removesuffix(":") in HEADINGS and line.rstrip().endswith(":"):
            current = line.rstrip().removesuffix(":")
            sections[current] = []
        else:
            sections[current].append(line)
    texts = {name: textwrap.dedent("\n".join(body)).strip() for name, body in sections.items()}
    return RuleDoc(summary=texts.pop(""), sections=texts)


def possible_fixes(fixes: tuple[str, ...], code: str, step: int) -> tuple[str, ...]:
    """Leave out advice on the learning rate for a fault that preceded the first update.

    At step 0, findings of the families ACT and NUM concern the initial model.
    """
    if step > 0 or not code.startswith(("ACT", "NUM")):
        return fixes
    return tuple(fix for fix in fixes if "learning rate" not in fix) or fixes
