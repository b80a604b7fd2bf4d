"""Objects in Amazon S3, or in a service with the same protocol: `s3://bucket/runs`.

Bucket and prefix come from the URL, the other settings from the places that AWS tools use: see
`backends/_aws.py`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar

from mothtrap.core.errors import (
    ConfigError,
    MissingExtraError,
    ObjectExistsError,
    ObjectNotFoundError,
    OddKeyError,
    StoreError,
    StoreRefusedError,
)
from mothtrap.store.backends import _aws
from mothtrap.store.objects import Children, ObjectInfo

T = TypeVar("T")

PART_BYTES = 16 << 20
"""Size of the parts in which larger objects are sent, four at a time, so that a network error
affects only one part. S3 takes up to 10,000 parts: 156 GiB.
"""
PARTS_AT_ONCE = 4

STREAMED_BYTES = 4 << 20
"""Number of bytes of an object that are in memory while it is written to a file; chosen by hand."""

TIMEOUTS = {"connect_timeout": "5s", "timeout": "60s"}
RETRIES = {"max_retries": 2, "retry_timeout": timedelta(seconds=15)}
"""Number of retries; chosen by hand: a caller that can wait tries again, and reports it."""

_CODE = re.compile(r"<Code>(.*?)</Code>.*?<Message>(.*?)</Message>", re.DOTALL)
_ODD_KEY = re.compile(r'object with invalid path: Error parsing Path "(.*?)": ')
_REFUSED = (
    "AccessDenied",
    "AccountProblem",
    "AllAccessDisabled",
    "ExpiredToken",
    "InvalidAccessKeyId",
    "InvalidBucketName",
    "InvalidToken",
    "SignatureDoesNotMatch",
)
_METADATA_HOST = "169.254.169.254"


def open_store(url: str) -> S3Store:
    """Return the store at `s3://bucket/prefix`.

    Raises:
        MissingExtraError: obstore is not installed.
        ConfigError: the URL has no bucket, or the profile cannot be used.
    """
    bucket, _, prefix = url.removeprefix("s3://").partition("/")
    if not bucket:
        raise ConfigError(f"cannot use {url!r}: it names no bucket, e.g. s3://bucket/runs")
    try:
        import obstore.store
    except ImportError as err:
        raise MissingExtraError(f"the object store {url}", "obstore", "s3") from err
    settings = _aws.settings()
    options: Any = {**TIMEOUTS, "allow_http": settings.allow_http}
    retries: Any = RETRIES
    client = obstore.store.S3Store(
        bucket,
        prefix=prefix.strip("/") or None,
        config=settings.config,
        client_options=options,
        retry_config=retries,
        credential_provider=settings.provider,
    )
    return S3Store(url, client)


class S3Store:
    """A `Store` in a bucket; see `store.objects`.

    Objects above `PART_BYTES` are written in parts. Parts left by an interrupted upload are not an
    object, so readers do not see them. The client supports the condition "only if absent" only for
    objects in one part; for larger objects, the existence of the key is checked first.
    """

    def __init__(self, url: str, client: Any) -> None:
        self._url, self._client = url, client

    def put_if_absent(self, key: str, data: bytes | Path) -> None:
        """Write an object."""
        size = data.stat().st_size if isinstance(data, Path) else len(data)

        def put() -> None:
            if size <= PART_BYTES:
                whole = data.read_bytes() if isinstance(data, Path) else data
                self._client.put(key, whole, mode="create")
                return
            self._client.put(
                key,
                data,
                use_multipart=True,
                chunk_size=PART_BYTES,
                max_concurrency=PARTS_AT_ONCE,
            )

        if size > PART_BYTES and self._exists(key):
            raise ObjectExistsError(f"{self._url}/{key} already exists and is not overwritten")
        self._asked(f"write {key} to", put)

    def get(self, key: str, start: int = 0, size: int | None = None) -> bytes:
        """Read an object, or a range of it."""

        def get() -> bytes:
            if size == 0:
                return b""
            if start == 0 and size is None:
                return bytes(self._client.get(key).bytes())
            span = {"offset": start} if size is None else (start, start + size)
            return bytes(self._client.get(key, options={"range": span}).bytes())

        return self._asked(f"read {key} from", get)

    def fetch(self, key: str, path: Path) -> None:
        """Read an object into a file, `STREAMED_BYTES` at a time."""
        what = f"read {key} from"
        parts = self._asked(
            what, lambda: self._client.get(key).stream(min_chunk_size=STREAMED_BYTES)
        )
        with path.open("wb") as file:
            while (part := self._asked(what, lambda: next(parts, None))) is not None:
                file.write(part)

    def list(self, folder: str, after: str = "") -> Iterator[ObjectInfo]:
        """Yield objects sorted by key, requesting pages of keys as needed."""
        what = _listing(folder)
        pages = self._asked(what, lambda: self._client.list(folder or None, offset=after or None))
        while page := self._asked(what, lambda: next(pages, None)):
            yield from map(_info, page)

    def children(self, folder: str) -> Children:
        """Return the folders and objects of a folder."""
        found = self._asked(
            _listing(folder), lambda: self._client.list_with_delimiter(folder or None)
        )
        return Children(
            folders=tuple(sorted(prefix.rpartition("/")[2] for prefix in found["common_prefixes"])),
            objects=tuple(sorted(map(_info, found["objects"]), key=lambda info: info.key)),
        )

    def delete(self, key: str) -> None:
        """Remove an object."""
        self._asked(f"remove {key} from", lambda: self._client.delete(key))

    def _exists(self, key: str) -> bool:
        try:
            self._asked(f"look for {key} in", lambda: self._client.head(key))
        except ObjectNotFoundError:
            return False
        return True

    def _asked(self, what: str, ask: Callable[[], T]) -> T:
        try:
            return ask()
        except Exception as err:  # obstore's errors have no common base class
            raise _in_words(err, f"cannot {what} {self._url}") from err


def _listing(folder: str) -> str:
    return f"list {folder} of" if folder else "list"


def _info(found: Any) -> ObjectInfo:
    modified_s = found["last_modified"].timestamp()
    return ObjectInfo(key=found["path"], size=found["size"], modified_s=modified_s)


def _in_words(err: Exception, what: str) -> StoreError:
    """Return an error with one sentence instead of the library's fifty lines."""
    from obstore import exceptions

    text = str(err).partition("\n\nDebug source")[0]
    answer = _CODE.search(text)
    code = answer.group(1) if answer else ""
    if odd := _ODD_KEY.search(text):
        return OddKeyError(
            f"{what}: the key {odd.group(1)!r} has a part that cannot be requested; "
            "remove it, e.g. with `aws s3api delete-object`"
        )
    said = f"{code}: {answer.group(2)}" if answer else text.rpartition(" - ")[2].strip()
    if isinstance(err, exceptions.AlreadyExistsError | exceptions.PreconditionError):
        return ObjectExistsError(f"{what}: it already exists and is not overwritten")
    if _METADATA_HOST in text:
        return StoreRefusedError(
            f"{what}: no credentials were found; set AWS_ACCESS_KEY_ID and "
            "AWS_SECRET_ACCESS_KEY, or AWS_PROFILE, or run where the machine has a role"
        )
    if code == "NoSuchBucket":
        return StoreRefusedError(f"{what}: there is no such bucket; create it, or correct its name")
    denied = exceptions.PermissionDeniedError | exceptions.UnauthenticatedError
    if code in _REFUSED or isinstance(err, denied | PermissionError):
        return StoreRefusedError(f"{what}: {said}; check the credentials and their permissions")
    if "redirect without LOCATION" in text or code in ("PermanentRedirect", "301"):
        return StoreRefusedError(f"{what}: the bucket is in another region; set AWS_REGION")
    if isinstance(err, FileNotFoundError | exceptions.NotFoundError):
        return ObjectNotFoundError(f"{what}: there is no such object")
    if "error sending request" in said:
        said = f"it does not answer ({said}); check the network, and AWS_ENDPOINT_URL if it is set"
    return StoreError(f"{what}: {said}")
