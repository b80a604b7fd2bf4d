"""Installed packages as a lock file, and the container image if known."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

from mothtrap.session.surroundings import package_folders

IMAGE_VARIABLES = ("APPTAINER_CONTAINER", "SINGULARITY_CONTAINER", "CONTAINER_IMAGE", "IMAGE_NAME")
"""Variables with the name of the container image: of Apptainer, and of common platforms."""
PODMAN_FILE = Path("/run/.containerenv")
MAX_IMAGE = 200


def lock_lines() -> list[str]:
    """Return the installed packages in the format of `pip freeze`, sorted by name.

    Only folder names and `direct_url.json` are read, which takes a few milliseconds. A package that
    was installed from a repository or a file is `name @ url`, without user and password.
    """
    found: dict[str, str] = {}
    for name, version, folder in package_folders():
        found.setdefault(name, _direct(name, folder) or f"{name}=={version}")
    return [found[name] for name in sorted(found)]


def container_image(environ: Mapping[str, str], podman: Path = PODMAN_FILE) -> str:
    """Return the container image of this process; empty if unknown.

    Podman writes it to a file, and others set a variable. Docker does not provide it: pass `-e
    CONTAINER_IMAGE=...` there.
    """
    try:
        match = re.search(r'^image="([^"]+)"', podman.read_text(encoding="utf-8"), re.MULTILINE)
    except (OSError, UnicodeDecodeError):
        match = None
    named = match.group(1) if match else ""
    values = (environ.get(name, "") for name in IMAGE_VARIABLES)
    return (named or next(filter(None, values), ""))[:MAX_IMAGE]


def _direct(name: str, folder: str) -> str:
    """Return the line of a package that was not installed from an index; empty for others."""
    path = os.path.join(folder, "direct_url.json")
    if not os.path.exists(path):  # for almost all packages
        return ""
    try:
        told = json.loads(Path(path).read_text(encoding="utf-8"))
        url = urlsplit(str(told["url"]))
        plain = urlunsplit((url.scheme, url.netloc.rpartition("@")[2], url.path, "", ""))
        version_control = told.get("vcs_info")
        if version_control:
            plain = f"{version_control['vcs']}+{plain}@{version_control['commit_id']}"
    except (OSError, ValueError, KeyError, TypeError):
        return ""
    return f"{name} @ {plain}"


def write(path: Path) -> None:
    """Write the lock file of this environment atomically."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    draft.write_text("".join(f"{line}\n" for line in lock_lines()), encoding="utf-8")
    os.replace(draft, path)
