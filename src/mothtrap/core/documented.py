"""Base of whatever reports findings: a code, a name, and a docstring that is the documentation."""

from __future__ import annotations

from typing import ClassVar

from mothtrap.core.findings import Severity
from mothtrap.core.ruledoc import RuleDoc, parse_doc


class Documented:
    """Base of rules and probes.

    `severity` is that of findings that do not state theirs. `title` names the fault in words where
    the words of the name do not. `explains` names the rules or probes whose findings this one
    causes. The docstring is the documentation (headings: see `core.ruledoc`).
    """

    code: ClassVar[str]
    called: ClassVar[str] = ""
    title: ClassVar[str] = ""
    severity: ClassVar[Severity] = Severity.WARNING
    explains: ClassVar[tuple[str, ...]] = ()

    @classmethod
    def name(cls) -> str:
        """The name of the fault: the file name, or what the class is `called`."""
        return cls.called or cls.__module__.rpartition(".")[2]

    @classmethod
    def doc(cls) -> RuleDoc:
        """The parsed docstring; empty where there is only the signature of a dataclass."""
        text = cls.__doc__ or ""
        return parse_doc("" if text.startswith(f"{cls.__name__}(") else text)
