"""Evidence that this user started a run on this machine.

A run records its host and command, but anyone who can write the files can forge them. So `run.json`
has a signature of the command and its folder, made with a secret that is stored outside of all
runs. Only a process of this user can make or check the signature.
"""

from __future__ import annotations

import hashlib
import hmac
import platform
import socket

import msgspec

from mothtrap.core import jsonable
from mothtrap.core.runs import RunInfo
from mothtrap.store.remote import cache_folder
from mothtrap.store.user_secret import user_secret


def signed(info: RunInfo) -> RunInfo:
    """Return the description of a run started by this process, with its signature."""
    return msgspec.structs.replace(info, signature=_signature(info))


def is_here(host: str) -> bool:
    """Return whether a host has the name of this host, which is no proof of identity."""
    return host in (socket.gethostname(), platform.node())


def is_own(info: RunInfo) -> bool:
    """Return whether this user started a run on this host, with this command and folder."""
    return is_here(info.host) and hmac.compare_digest(
        info.signature.encode(), _signature(info).encode()
    )


def _signature(info: RunInfo) -> str:
    data = jsonable.encode([info.command, info.cwd, info.host])
    secret = user_secret(cache_folder() / "runs.secret")
    return hmac.new(secret.encode(), data, hashlib.sha256).hexdigest()
