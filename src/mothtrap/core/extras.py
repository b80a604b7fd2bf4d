"""Commands that install the optional packages of an extra.

mothtrap is not on the package index, so `pip install 'mothtrap[web]'` would fail. The command names
the packages themselves, so it works however mothtrap was installed.
"""

from __future__ import annotations

_MARKER = "; extra == "


def install_command(extra: str) -> str:
    """Return the command that installs the packages of an extra.

    Args:
        extra: Name of the extra, such as `web`.

    Returns:
        For instance `pip install 'starlette>=1.0.1' 'uvicorn>=0.30'`. If mothtrap was not installed
        with pip, a sentence that names the extra.
    """
    from importlib.metadata import PackageNotFoundError, requires  # slow to import

    try:
        needed = requires("mothtrap") or []
    except PackageNotFoundError:  # the source tree is on the path
        needed = []
    split = [each.partition(_MARKER) for each in needed]
    packages = [package for package, _, name in split if name.strip("'\"") == extra]
    if not packages:
        return f"install mothtrap with the extra {extra!r}"
    return " ".join(["pip install", *(f"'{package}'" for package in sorted(packages))])
