"""The page's own modules as one file: forty small requests take longer than a large one.

Each module becomes a function that is called once, in the order of the imports, without its
comments. Modules that the page loads later are a second file, which imports shared modules from the
first. Only the forms of `import` and `export` that the page is written in are known; others are an
error, which a test sees.
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


SHARED = "sharedModules"
"""The name under which the first file exports its modules to the second."""


class Unlinkable(ValueError):
    """A module in an unsupported form, or a module that imports itself."""


def linked(entry: str, sources: Mapping[str, str], later: str = "") -> dict[str, str]:
    """Bundle a module with everything that it imports by a relative path.

    Args:
        entry: path of the module that starts the page, at the root.
        sources: text of every module by its path.
        later: path of a module that the page imports when it is needed; it becomes a second file.

    Raises:
        Unlinkable: a module cannot be read, is missing, or is part of a circle.
    """
    first = _Linker(sources)
    first.add(entry, ())
    if not later:
        return {entry: first.text()}
    pairs = ", ".join(f'"{path}": {name}' for path, name in first.added.items())
    second = _Linker(sources, {path: f'{SHARED}["{path}"]' for path in first.added})
    name = second.add(later, ())
    above = posixpath.relpath(entry, posixpath.dirname(later))
    exports = ", ".join(found["name"] for found in _EXPORT.finditer(sources[later]))
    return {
        entry: f"{first.text()}export const {SHARED} = {{ {pairs} }};\n",
        later: f'import {{ {SHARED} }} from "{above}";\n{second.text()}'
        f"export const {{ {exports} }} = {name};\n",
    }


class _Linker:
    def __init__(self, sources: Mapping[str, str], there: Mapping[str, str] | None = None) -> None:
        self.packages: dict[str, str] = {}
        self.parts: list[str] = []
        self.added = dict(there or {})
        self._sources = sources

    def text(self) -> str:
        """All that was added, behind the packages that it imports."""
        packages = [f'import * as {own} from "{name}";' for name, own in self.packages.items()]
        return "\n".join([*packages, *self.parts, ""])

    def add(self, path: str, importers: tuple[str, ...]) -> str:
        """Add a module after the modules that it imports; return the name of its exports."""
        if path in self.added:
            return self.added[path]
        if path in importers or path not in self._sources:
            reason = "imports itself" if path in importers else "is missing"
            raise Unlinkable(f"{path} {reason}: {' > '.join(importers)}")

        def bound(found: re.Match[str]) -> str:
            return self._bound(found, path, (*importers, path))

        text = _COMMENT.sub("", self._sources[path])
        body = _EXPORT.sub(r"\g<form> \g<name>", _IMPORT.sub(bound, text))
        if left := _LEFT.search(body):
            raise Unlinkable(f"{path}: {body[left.start() :].partition(chr(10))[0]}")
        name = f"module{len(self.added)}"
        self.added[path] = name
        exports = ", ".join(found["name"] for found in _EXPORT.finditer(text))
        self.parts.append(
            f"// {path}\nconst {name} = (() => {{\n{body}return {{ {exports} }};\n}})();"
        )
        return name

    def _bound(self, found: re.Match[str], path: str, importers: tuple[str, ...]) -> str:
        """The declaration that replaces an import."""
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
