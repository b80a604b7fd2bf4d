"""A rule's docstring, taken apart: the one source of all its documentation."""

from __future__ import annotations

import functools
import inspect
import textwrap
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

VARIANTS = {
    "Keras": frozenset({"keras", "tensorflow", "tf_keras"}),
    "LightGBM": frozenset({"lightgbm"}),
    "CatBoost": frozenset({"catboost"}),
}
"""Words that begin a bullet of `What to do` (`Keras: ...`, `LightGBM, CatBoost: ...`) for users
of some adapters alone."""


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
        """The bullets of `What to do`, most likely first, one line each; no variants."""
        return tuple(bullet for bullet in self._bullets() if not _variants(bullet))

    def fixes_for(self, adapters: frozenset[str]) -> tuple[str, ...]:
        """Return the variants of `What to do` for users of some adapters, if there are any."""
        found = [bullet for bullet in self._bullets() if not adapters.isdisjoint(_variants(bullet))]
        return tuple(bullet.partition(": ")[2] for bullet in found)

    def _bullets(self) -> list[str]:
        bullets = ("\n" + self.sections.get("What to do", "")).split("\n- ")[1:]
        return [" ".join(bullet.split()) for bullet in bullets]


def _variants(bullet: str) -> frozenset[str]:
    """The adapters for whose users alone a bullet is; none for one that is for all."""
    words = bullet.partition(": ")[0].split(", ")
    if not VARIANTS.keys() >= set(words):
        return frozenset()
    return frozenset().union(*(VARIANTS[word] for word in words))


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
