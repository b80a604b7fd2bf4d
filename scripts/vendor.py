"""Fetch the libraries of the web page with `npm pack` and note them in LOCK.json.

    python scripts/vendor.py

Only this script requires Node. The files are kept in the repository as they are published, without
the lines that point to source maps; a library that is published small only as a script gets a line
that exports it.
"""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "src" / "mothtrap" / "web" / "static" / "vendor"
TESTS = ROOT / "tests" / "web" / "vendor"
EXPORTS = {"uplot.js": b"export default uPlot;\n"}
"""Of scripts that define a variable: 51 kB, where the module that uPlot publishes has 145."""
SOURCE_MAP = re.compile(rb"//# sourceMappingURL=\S*\n?")


class Package(NamedTuple):
    """A package of npm; `files` maps its files to the names that they get here."""

    name: str
    version: str
    licence: str
    files: dict[str, str]
    folder: Path = PAGE


PACKAGES = (
    Package(
        "preact",
        "11.2.0",
        "MIT",
        {
            "dist/preact.mjs": "preact.js",
            "hooks/dist/hooks.mjs": "preact-hooks.js",
            "LICENSE": "preact.LICENSE",
        },
    ),
    Package(
        "@preact/signals-core",
        "1.14.5",
        "MIT",
        {"dist/signals-core.mjs": "signals-core.js", "LICENSE": "signals-core.LICENSE"},
    ),
    Package(
        "@preact/signals",
        "2.11.4",
        "MIT",
        {"dist/signals.mjs": "signals.js", "LICENSE": "signals.LICENSE"},
    ),
    Package("htm", "3.1.1", "Apache-2.0", {"dist/htm.mjs": "htm.js", "LICENSE": "htm.LICENSE"}),
    Package(
        "uplot",
        "1.6.32",
        "MIT",
        {
            "dist/uPlot.iife.min.js": "uplot.js",
            "dist/uPlot.min.css": "uplot.css",
            "LICENSE": "uplot.LICENSE",
        },
    ),
    Package(
        "axe-core",
        "4.14.1",
        "MPL-2.0",
        {"axe.min.js": "axe.min.js", "LICENSE": "axe.LICENSE"},
        TESTS,
    ),
)


def fetch(package: Package, scratch: Path) -> list[dict[str, str]]:
    """Write the files of a package into its folder; return what LOCK.json says of each."""
    wanted = f"{package.name}@{package.version}"
    packed = subprocess.run(
        ["npm", "pack", "--silent", wanted], cwd=scratch, check=True, capture_output=True, text=True
    )
    entries = []
    with tarfile.open(scratch / packed.stdout.split()[-1]) as archive:
        for inside, name in package.files.items():
            member = archive.extractfile(f"package/{inside}")
            if member is None:
                raise SystemExit(f"{wanted} has no file {inside}")
            data = without_source_map(member.read()) + EXPORTS.get(name, b"")
            package.folder.mkdir(parents=True, exist_ok=True)
            (package.folder / name).write_bytes(data)
            entries.append(
                {
                    "file": name,
                    "package": package.name,
                    "version": package.version,
                    "from": inside,
                    "licence": package.licence,
                    "sha256": hashlib.sha256(data).hexdigest(),
                }
            )
    return entries


def without_source_map(data: bytes) -> bytes:
    """Return a file without the comment that names its source map."""
    return SOURCE_MAP.sub(b"", data)


def main() -> int:
    """Fetch every package and write LOCK.json beside its files."""
    locks: dict[Path, list[dict[str, str]]] = {}
    with tempfile.TemporaryDirectory() as scratch:
        for package in PACKAGES:
            locks.setdefault(package.folder, []).extend(fetch(package, Path(scratch)))
    for folder, entries in locks.items():
        (folder / "LOCK.json").write_text(json.dumps(entries, indent=1) + "\n")
        print(f"{folder.relative_to(ROOT)}: {len(entries)} files")
    return 0


if __name__ == "__main__":
    sys.exit(main())
