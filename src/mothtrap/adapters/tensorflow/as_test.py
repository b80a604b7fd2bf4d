"""Write a test that reproduces a failed operation without the training.

The test is kept only if it fails when it is run.
"""

from __future__ import annotations

import inspect
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import tensorflow as tf

from mothtrap.adapters.tensorflow import internals

TIMEOUT_S: Final = 120.0
"""Maximum time in which a written test must fail; most of it is the import of TensorFlow."""
NO_OPERATION: Final = "no operation was found to be at fault"
_SOURCE: Final = '''"""{title}

Written by `mothtrap replay --as-test`. In it {kind} gets its inputs of that step, from the
.npz beside this file.
"""

from pathlib import Path

import numpy as np
import tensorflow as tf

ARRAYS = np.load(Path(__file__).with_suffix(".npz"), allow_pickle=False)


def test_the_result_is_finite():
    result = tf.raw_ops.{kind}(
        {arguments},
    )
    for part in tf.nest.flatten(result):
        assert tf.reduce_all(tf.math.is_finite(part))
'''


class NotWrittenError(Exception):
    """No test was written; the message gives the reason."""


def write(path: Path, kind: str, inputs: Sequence[Any], attrs: Sequence[Any], title: str) -> str:
    """Write a test, and the arrays it needs; return a sentence about it.

    Args:
        path: path of the test.
        kind: kind of the operation.
        inputs: eager tensors.
        attrs: alternating names and values.
        title: first line of its docstring.

    Raises:
        NotWrittenError: the operation cannot be called by itself, or does not fail in this way.
    """
    arguments = internals.inputs_by_name(kind, inputs)
    function = getattr(tf.raw_ops, kind, None)
    if function is None or arguments is None:
        raise NotWrittenError(f"{kind} cannot be called alone")
    given = dict(zip(attrs[::2], attrs[1::2], strict=False))
    known = inspect.signature(function).parameters
    settings = {name: value for name, value in given.items() if name in known}
    lines = [*map(_tensor, arguments, arguments.values()), *_settings(settings)]
    arrays = {name: _plain(tensor) for name, tensor in arguments.items()}
    source = _SOURCE.format(title=title, kind=kind, arguments=",\n        ".join(lines))
    path.write_text(source, encoding="utf-8")
    data = path.with_suffix(".npz")
    np.savez(data, **arrays)
    try:
        _must_fail(path, kind)
    except NotWrittenError:
        path.unlink()
        data.unlink()
        raise
    return f"{path} contains a test of it"


def _must_fail(path: Path, kind: str) -> None:
    tried = f"import runpy; runpy.run_path({str(path)!r})['test_the_result_is_finite']()"
    environment = {k: v for k, v in os.environ.items() if not k.startswith("MOTHTRAP_")}
    environment["MOTHTRAP_DISABLE"] = "1"
    try:
        ended = subprocess.run(
            [sys.executable, "-c", tried],
            env=environment,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as err:
        raise NotWrittenError(f"the test of {kind} could not be run: {err}") from err
    said = ended.stderr.strip().splitlines()
    if not ended.returncode:
        raise NotWrittenError(f"{kind} alone produces finite values")
    if not said or not said[-1].startswith("AssertionError"):
        raise NotWrittenError(f"{kind} cannot be called alone: {' '.join(said[-1:])}")


def _plain(tensor: Any) -> Any:
    """Return a tensor as an array that NumPy can store."""
    array = tensor.numpy()
    return array if array.dtype.kind in "fiub" else array.astype(np.float32)


def _tensor(name: str, tensor: Any) -> str:
    made = f'tf.constant(ARRAYS["{name}"])'
    plain = tensor.dtype.name == _plain(tensor).dtype.name
    return f"{name}={made if plain else f'tf.cast({made}, {tensor.dtype.name!r})'}"


def _settings(settings: dict[str, Any]) -> Iterator[str]:
    for name, value in settings.items():
        if isinstance(value, tf.DType):
            yield f"{name}=tf.{value.name}"
        elif isinstance(value, bytes):
            yield f"{name}={value.decode()!r}"
        elif isinstance(value, bool | int | float | str) or value is None:
            yield f"{name}={value!r}"
        elif isinstance(value, list | tuple) and all(isinstance(one, int) for one in value):
            yield f"{name}={list(value)!r}"
