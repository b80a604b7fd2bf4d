"""Base of rules and probes: a code, a name, and a docstring that is the documentation."""

from __future__ import annotations

from typing import ClassVar

from mothtrap.core.findings import Severity
from mothtrap.core.ruledoc import RuleDoc, parse_doc


class Documented:
    """Base of rules and probes.

    `severity` is the default severity of findings. `title` is the name of the fault to show, if it
    differs from the words of the name. `explains` names the rules or probes whose findings this
    fault causes. The docstring is the documentation (for headings see `core.ruledoc`).
    """

    code: ClassVar[str]
    called: ClassVar[str] = ""
    title: ClassVar[str] = ""
    severity: ClassVar[Severity] = Severity.WARNING
    explains: ClassVar[tuple[str, ...]] = ()

    @classmethod
    def name(cls) -> str:
        """Return the name of the fault: `called` if it is set, or else the file name."""
        return cls.called or cls.__module__.rpartition(".")[2]

    @classmethod
    def doc(cls) -> RuleDoc:
        """Return the parsed docstring; empty if the class has none."""
        text = cls.__doc__ or ""
        return parse_doc("" if text.startswith(f"{cls.__name__}(") else text)
