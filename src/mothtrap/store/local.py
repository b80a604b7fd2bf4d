"""A store of keys and bytes in a folder of the local disk."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from mothtrap.core.errors import UnknownNameError

_DRAFT = ".draft-"


class LocalStore:
    """Implements `core.protocols.Store`; keys are relative paths with `/`."""

    def __init__(self, root: str | Path) -> None:
        self._root = Path(root).resolve()

    def put_if_absent(self, key: str, data: bytes) -> bool:
        """Write a new object whole; False when the key exists.

        Raises:
            ValueError: the key would leave the root.
        """
        path = self._path(key)
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = path.parent / f"{_DRAFT}{secrets.token_hex(8)}"
        try:
            with draft.open("xb") as file:
                file.write(data)
            # A hard link fails where the name exists, and shows the object whole.
            os.link(draft, path)
        except FileExistsError:
            return False
        finally:
            draft.unlink(missing_ok=True)
        return True

    def get(self, key: str, *, start: int = 0, length: int | None = None) -> bytes:
        """Read an object, or `length` bytes of it from `start`.

        Raises:
            UnknownNameError: no such object (a KeyError).
            ValueError: a negative range, or a key that would leave the root.
        """
        if start < 0 or (length is not None and length < 0):
            raise ValueError(
                f"cannot read {key!r} from {start}, {length} bytes: expected 0 or more for both"
            )
        try:
            with self._path(key).open("rb") as file:
                file.seek(start)
                return file.read(-1 if length is None else length)
        except (FileNotFoundError, IsADirectoryError, NotADirectoryError) as err:
            raise UnknownNameError(
                f"no object {key!r} in {self._root}; `list` names those that are there"
            ) from err

    def list(self, prefix: str = "") -> Iterator[str]:
        """Keys that begin with `prefix`, ascending."""
        keys = []
        for folder, _, names in os.walk(self._root):
            base = Path(folder).relative_to(self._root)
            keys += [(base / n).as_posix() for n in names if not n.startswith(_DRAFT)]
        return iter(sorted(key for key in keys if key.startswith(prefix)))

    def delete(self, key: str) -> None:
        """Remove an object; no error when absent."""
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            self._path(key).unlink()

    def _path(self, key: str) -> Path:
        parts = PurePosixPath(key).parts
        plain = bool(key) and not {"\0", "\\"} & set(key) and key == "/".join(parts)
        if not plain or key.startswith("/") or ".." in parts or parts[-1].startswith(_DRAFT):
            raise ValueError(
                f"{key!r} cannot be a key: expected names joined by '/', without '..', '.', "
                "backslash or a leading '/'"
            )
        path = self._root.joinpath(*parts)
        if not path.resolve().is_relative_to(self._root):  # a link inside that points outside
            raise ValueError(f"{key!r} cannot be a key: it leads out of {self._root}")
        return path
