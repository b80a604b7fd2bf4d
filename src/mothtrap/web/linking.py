"""The page's own modules as one file: forty small requests take longer than one of the same bytes.

Each module becomes a function that is called once, in the order of the imports, without its
comments. Only the forms of `import` and `export` that the page is written in are known; others are
an error, which a test sees.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping

_IMPORT = re.compile(
    r'^import (?:\{(?P<names>[^}]*)\}|(?P<default>\w+)) from "(?P<source>[^"]+)";\n', re.MULTILINE
)
_EXPORT = re.compile(
    r"^export (?P<form>const|class|function|async function) (?P<name>\w+)", re.MULTILINE
)
_COMMENT = re.compile(r"^[ ]*/\*\*.*?\*/\n", re.MULTILINE | re.DOTALL)
_LEFT = re.compile(r"^(?:import\b|export\b)(?!\()", re.MULTILINE)


class Unlinkable(ValueError):
    """A module that is written in a form that is not known here, or imports itself."""


def linked(entry: str, sources: Mapping[str, str]) -> str:
    """Return a module and all that it imports by a relative path as one module.

    Args:
        entry: path of the module that starts the page.
        sources: text of every module by its path.

    Raises:
        Unlinkable: a module cannot be read, is missing, or is part of a circle.
    """
    linker = _Linker(sources)
    linker.add(entry, ())
    packages = [f'import * as {own} from "{name}";' for name, own in linker.packages.items()]
    return "\n".join([*packages, *linker.parts, ""])


class _Linker:
    def __init__(self, sources: Mapping[str, str]) -> None:
        self.packages: dict[str, str] = {}
        self.parts: list[str] = []
        self._sources = sources
        self._added: dict[str, str] = {}

    def add(self, path: str, importers: tuple[str, ...]) -> str:
        """Add a module after those that it imports; return the name of its exports."""
        if path in self._added:
            return self._added[path]
        if path in importers or path not in self._sources:
            reason = "imports itself" if path in importers else "is missing"
            raise Unlinkable(f"{path} {reason}: {' > '.join(importers)}")

        def bound(found: re.Match[str]) -> str:
            return self._bound(found, path, (*importers, path))

        text = _COMMENT.sub("", self._sources[path])
        body = _EXPORT.sub(r"\g<form> \g<name>", _IMPORT.sub(bound, text))
        if left := _LEFT.search(body):
            raise Unlinkable(f"{path}: {body[left.start() :].partition(chr(10))[0]}")
        name = f"module{len(self._added)}"
        self._added[path] = name
        exports = ", ".join(found["name"] for found in _EXPORT.finditer(text))
        self.parts.append(
            f"// {path}\nconst {name} = (() => {{\n{body}return {{ {exports} }};\n}})();"
        )
        return name

    def _bound(self, found: re.Match[str], path: str, importers: tuple[str, ...]) -> str:
        """The declaration that stands for an import."""
        source = found["source"]
        if source.startswith("."):
            own = self.add(
                posixpath.normpath(posixpath.join(posixpath.dirname(path), source)), importers
            )
        else:
            own = self.packages.setdefault(source, f"package{len(self.packages)}")
        if found["default"]:
            return f"const {found['default']} = {own}.default;\n"
        return f"const {{{found['names'].replace(' as ', ': ')}}} = {own};\n"
