"""Objects as files in a folder: `file:///path/to/runs`."""

from __future__ import annotations

import os
import secrets
import shutil
import stat
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from urllib.parse import unquote

from mothtrap.core.errors import ConfigError, ObjectExistsError, ObjectNotFoundError, StoreError
from mothtrap.store.objects import Children, ObjectInfo
from mothtrap.store.plain_files import open_plain

_DRAFT = ".draft-"


def open_store(url: str) -> LocalStore:
    """Return the store below a `file://` URL."""
    host, slash, path = url.removeprefix("file://").partition("/")
    if host not in ("", "localhost") or not slash:
        raise ConfigError(
            f"cannot use {url!r}: a file URL names an absolute path, e.g. file:///data/runs"
        )
    return LocalStore(Path("/" + unquote(path)))


class LocalStore:
    """A `Store` below a folder; see `store.objects`."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def put_if_absent(self, key: str, data: bytes | Path) -> None:
        """Write a file, under a temporary name first, so that readers never see a partial file."""
        path = self._path(key)
        draft = path.with_name(f"{_DRAFT}{secrets.token_hex(8)}")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            if isinstance(data, Path):
                shutil.copyfile(data, draft)
            else:
                draft.write_bytes(data)
            os.link(draft, path)
        except FileExistsError as err:
            raise ObjectExistsError(f"{path} already exists and is not overwritten") from err
        except OSError as err:
            raise StoreError(f"cannot write {path}: {err}") from err
        finally:
            draft.unlink(missing_ok=True)

    def get(self, key: str, start: int = 0, size: int | None = None) -> bytes:
        """Read a file, or a part of it."""
        path = self._path(key)
        try:
            with os.fdopen(open_plain(path), "rb") as file:
                file.seek(start)
                return file.read() if size is None else file.read(size)
        except (FileNotFoundError, IsADirectoryError) as err:
            raise ObjectNotFoundError(f"{path} does not exist") from err
        except OSError as err:
            raise StoreError(f"cannot read {path}: {err}") from err

    def fetch(self, key: str, path: Path) -> None:
        """Copy a file."""
        source = self._path(key)
        try:
            shutil.copyfile(source, path)
        except (FileNotFoundError, IsADirectoryError) as err:
            raise ObjectNotFoundError(f"{source} does not exist") from err
        except OSError as err:
            raise StoreError(f"cannot copy {source} to {path}: {err}") from err

    def list(self, folder: str, after: str = "") -> Iterator[ObjectInfo]:
        """Yield the files below a folder, sorted by key."""
        top = self._path(folder)
        found = sorted((self._key(path), path) for path in top.rglob("*") if _shown(path.name))
        yield from self._files(path for key, path in found if key > after)

    def children(self, folder: str) -> Children:
        """Return the folders and files of a folder."""
        top = self._path(folder)
        names = sorted(filter(_shown, os.listdir(top))) if top.is_dir() else []
        paths = [top / name for name in names]
        return Children(
            folders=tuple(path.name for path in paths if path.is_dir()),
            objects=tuple(self._files(paths)),
        )

    def delete(self, key: str) -> None:
        """Remove a file."""
        try:
            self._path(key).unlink(missing_ok=True)
        except OSError as err:
            raise StoreError(f"cannot remove {self._path(key)}: {err}") from err

    def _files(self, paths: Iterable[Path]) -> Iterator[ObjectInfo]:
        """Yield the paths that are files; a file may be removed at any moment."""
        for path in paths:
            with suppress(FileNotFoundError):
                status = path.stat()
                if stat.S_ISREG(status.st_mode):
                    yield ObjectInfo(
                        key=self._key(path), size=status.st_size, modified_s=status.st_mtime
                    )

    def _path(self, key: str) -> Path:
        parts = [part for part in key.split("/") if part]
        if ".." in parts:
            raise StoreError(f"the key {key!r} points outside {self._root}; keys contain no '..'")
        return self._root.joinpath(*parts)

    def _key(self, path: Path) -> str:
        return path.relative_to(self._root).as_posix()


def _shown(name: str) -> bool:
    return not name.startswith(_DRAFT)
