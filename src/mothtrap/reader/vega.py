"""Rendering of Vega-Lite specifications as images, in a separate process with limits."""

from __future__ import annotations

import importlib.util
import resource
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

from mothtrap.core import jsonable
from mothtrap.core.error_texts import first_line, shortened
from mothtrap.core.errors import MissingExtraError, QueryError

TIMEOUT_S = 60.0
PROCESSOR_S = 20
MAX_BYTES = 8 << 20
"""Maximum size of an image; chosen by hand."""
DATA_BYTES = 4 << 30
_DRAW = """
import sys, vl_convert
text = sys.stdin.buffer.read().decode()
if sys.argv[1] == "png":
    sys.stdout.buffer.write(vl_convert.vegalite_to_png(text, allowed_base_urls=[]))
else:
    sys.stdout.buffer.write(vl_convert.vegalite_to_svg(text, allowed_base_urls=[]).encode())
"""


def encoded(specification: Mapping[str, Any]) -> bytes:
    """Return a specification as JSON."""
    return jsonable.encode(dict(specification))


def can_draw() -> bool:
    """Return whether images can be rendered here."""
    return importlib.util.find_spec("vl_convert") is not None


def draw(specification: bytes, form: str = "svg") -> bytes:
    """Render a Vega-Lite specification as an image, without accessing any URL.

    Args:
        specification: specification as JSON.
        form: `svg` or `png`.

    Raises:
        MissingExtraError: vl-convert-python is not installed.
        QueryError: it cannot be rendered within the limits; the message gives the reason.
    """
    if not can_draw():
        raise MissingExtraError("rendering a Vega-Lite figure", "vl-convert-python", "plot")
    try:
        done = subprocess.run(
            [sys.executable, "-c", _DRAW, form],
            input=specification,
            capture_output=True,
            timeout=TIMEOUT_S,
            preexec_fn=_limit,
        )
    except subprocess.TimeoutExpired as err:
        raise QueryError(f"the figure was not drawn within {TIMEOUT_S:g} s") from err
    if done.returncode != 0 or not done.stdout:
        said = done.stderr.decode("utf-8", "replace").strip().splitlines()
        reason = shortened(first_line(said[-1] if said else "")) or f"exit code {done.returncode}"
        raise QueryError(f"the figure cannot be drawn: {reason}")
    if len(done.stdout) > MAX_BYTES:
        raise QueryError(f"the image has more than {MAX_BYTES:,} bytes")
    return done.stdout


def _limit() -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (PROCESSOR_S, PROCESSOR_S))
    resource.setrlimit(resource.RLIMIT_DATA, (DATA_BYTES, DATA_BYTES))
