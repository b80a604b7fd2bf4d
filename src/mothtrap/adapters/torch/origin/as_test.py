"""Write a test that reproduces a failure without the training.

The test contains the function, module, or operation that failed, with its inputs as arrays in a
file of the same folder. It is kept only if it fails when it is run.
"""

from __future__ import annotations

import dataclasses
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from mothtrap.adapters.torch.origin.operations import Localized
from mothtrap.adapters.torch.origin.source_rendering import (
    BUILT,
    NotRenderableError,
    SourceRenderer,
)
from mothtrap.adapters.torch.origin.user_calls import (
    FunctionCall,
    ModuleCall,
    UserCall,
)

TIMEOUT_S = 120.0
"""Maximum time in which a written test must fail; most of it is the import of torch."""
TEST = "test_the_result_is_finite"
NO_OPERATION = "no operation was found to be at fault"

_HEAD = '''"""{title}

Written by `mothtrap replay --as-test`. In it {what} gets its inputs of that step, from the
.npz beside this file. {until}
"""

{imports}

ARRAYS = np.load(Path(__file__).with_suffix(".npz"), allow_pickle=False)
'''

_SCRIPT = """
SCRIPT = Path({path!r})
sys.path.insert(0, str(SCRIPT.parent))
SPEC = importlib.util.spec_from_file_location("script", SCRIPT)
script = sys.modules["script"] = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(script)
"""

_HELPERS = '''

def array(key):
    """An array of the step."""
    return ARRAYS[key].copy()


def tensor(key, dtype, *, requires_grad=False):
    """A tensor of the step."""
    made = torch.from_numpy(array(key))
    made = made if made.dtype == dtype else made.view(dtype)
    return made.requires_grad_(requires_grad)
'''

_TEST = """

{define}


def test_the_result_is_finite():
    subject = {subject}
    args, kwargs = {given}
{call}
    assert all(torch.isfinite(part).all() for part in tensors(result))
    if any(part.requires_grad for part in tensors(result)):
        sum(part.sum() for part in tensors(result) if part.requires_grad).backward()
        sources = [*tensors([args, kwargs]), *getattr(subject, "parameters", list)()]
        gradients = [source.grad for source in sources if source.grad is not None]
        assert all(torch.isfinite(gradient).all() for gradient in gradients)
"""

_TENSORS = '''

def tensors(value):
    """Every floating-point tensor in a value."""
    if isinstance(value, torch.Tensor):
        return [value] if value.is_floating_point() or value.is_complex() else []
    parts = list(value.values()) if isinstance(value, dict) else value
    parts = parts if isinstance(parts, (list, tuple)) else []
    return [one for part in parts for one in tensors(part)]
'''


class NotWrittenError(Exception):
    """No test was written; the message gives the reason."""


@dataclass(frozen=True, slots=True)
class _Subject:
    """Subject of a test: source code that defines it, refers to it, and creates its arguments.

    `until` describes when the test passes. If the test does not call code of the user, `unguarded`
    is the user's line whose repair it does not detect.
    """

    words: str
    until: str
    define: str
    call: str
    given: str
    unguarded: str = ""


def write(path: Path, found: Localized, title: str) -> str:
    """Write a test of a failure, with its arrays in the same folder.

    Args:
        path: path of the test, which ends in `.py`; an existing file is not overwritten.
        found: the failure.
        title: first line of the test.

    Returns:
        A sentence about the written files.

    Raises:
        NotWrittenError: nothing was written, because no test reproduces the failure.
    """
    for there in (path, path.with_suffix(".npz")):
        if there.exists():
            raise NotWrittenError(f"{there} already exists")
    try:
        with tempfile.TemporaryDirectory(prefix="mothtrap-") as folder:
            return _tried(path, Path(folder) / path.name, found, title)
    except OSError as err:
        raise NotWrittenError(f"{path}: {err.strerror or err}") from err


def _tried(path: Path, draft: Path, found: Localized, title: str) -> str:
    """Write drafts until one of them fails as intended; keep this draft."""
    why = NO_OPERATION
    for report in _subjects(found):
        renderer = SourceRenderer()
        try:
            subject = report(renderer)
        except NotRenderableError as err:
            why = str(err)
            continue
        _write(draft, _source(subject, renderer, found, title), renderer)
        if _fails(draft, found):
            for suffix in (".npz", ".py"):
                with path.with_suffix(suffix).open("xb") as file:  # never overwrite another test
                    file.write(draft.with_suffix(suffix).read_bytes())
            limit = f"; it does not test a fix of {subject.unguarded}" * bool(subject.unguarded)
            return (
                f"{path.name} reproduces it with {subject.words} alone: pytest {path} "
                f"(needs {path.stem}.npz in its folder){limit}"
            )
        why = f"{subject.words} does not fail on its own"
    raise NotWrittenError(why)


def _subjects(found: Localized) -> Iterator[Callable[[SourceRenderer], _Subject]]:
    """Yield candidate subjects, from the most informative to the easiest to write."""
    call = found.call
    if call is None:
        return
    if call.inside is not None:
        yield lambda renderer: _function(call.inside, renderer)  # type: ignore[arg-type]
    for running in reversed(call.running):
        if not type(running.module).__module__.startswith("torch."):
            yield lambda renderer, running=running: _module(running, renderer)  # type: ignore[misc]
            break
    if call.function:
        yield lambda renderer: _operation(call, renderer)
    else:
        yield lambda renderer: _layer(call, renderer)


def _function(call: FunctionCall, renderer: SourceRenderer) -> _Subject:
    name = renderer.named(call.function)
    return _Subject(
        words=f"`{call.function.__name__}`",
        until=_until("it"),
        define="",
        call=name,
        given=f"((), {renderer.of(dict(call.arguments))})",
    )


def _module(call: ModuleCall, renderer: SourceRenderer) -> _Subject:
    made = renderer.module(call.module)
    return _Subject(
        words=f"module `{call.path}` ({type(call.module).__name__})",
        until=_until("its forward"),
        define=f'def module():\n    """Module {call.path} before the step."""\n    return {made}',
        call="module()",
        given=f"({renderer.of(tuple(call.args))}, {renderer.of(dict(call.kwargs))})",
    )


def _layer(call: UserCall, renderer: SourceRenderer) -> _Subject:
    """Yield a layer that raised an exception, with its inputs from the script."""
    line = _line(call)
    return dataclasses.replace(
        _module(call.running[-1], renderer),
        until=(
            "The code around that layer in the script could\nnot be called with it, so the test "
            f"calls only the layer. It does not test a fix\nof {line}; it passes once its input "
            "here is fixed in the same way."
        ),
        unguarded=line,
    )


def _operation(call: UserCall, renderer: SourceRenderer) -> _Subject:
    line = _line(call)
    lines = "".join(f"    # {place}\n" for place in call.stack[:1])
    body = f"{lines}    return {call.function}(*args, **kwargs)"
    return _Subject(
        words=call.function,
        until=(
            "No function or module of the script could be called\nwith it, so the test calls "
            f"only the operation. It does not test a fix of\n{line}; it passes once `operation` "
            "below is fixed in the same way."
        ),
        unguarded=line,
        define=f'def operation(*args, **kwargs):\n    """Faulty operation: fix it."""\n{body}',
        call="operation",
        given=f"({renderer.of(tuple(call.args))}, {renderer.of(dict(call.kwargs))})",
    )


def _line(call: UserCall) -> str:
    return call.stack[0] if call.stack else "the script"


def _until(fixed: str) -> str:
    return f"The test fails as long as the step would go wrong, and passes once\n{fixed} is fixed."


def _source(subject: _Subject, renderer: SourceRenderer, found: Localized, title: str) -> str:
    modules = sorted(renderer.imports - {"builtins"})
    lines = ["from pathlib import Path", "", "import numpy as np"]
    if renderer.script is not None:
        lines = ["import importlib.util", "import sys", *lines]
    lines += [f"import {name}" for name in modules]
    head = _HEAD.format(
        title=title,
        what=subject.words,
        until=subject.until,
        imports="\n".join(lines),
    )
    if renderer.script is not None:
        head += _SCRIPT.format(path=str(renderer.script))
    autocast = found.call.autocast if found.call is not None else None
    test = _TEST.format(
        define=subject.define,
        subject=subject.call,
        given=subject.given,
        call=_call(autocast),
    )
    helpers = _HELPERS + (BUILT if "built(" in subject.define else "") + _TENSORS
    return re.sub(r"\n{4,}", "\n\n\n", head + helpers + test)


def _call(autocast: tuple[str, torch.dtype] | None) -> str:
    call = "    result = subject(*args, **kwargs)"
    if autocast is None:
        return call
    return f"    with torch.autocast({autocast[0]!r}, dtype={autocast[1]}):\n    {call}"


def _write(path: Path, source: str, renderer: SourceRenderer) -> None:
    path.write_text(source, encoding="utf-8")
    with path.with_suffix(".npz").open("wb") as file:
        np.savez_compressed(file, **renderer.arrays)  # type: ignore[arg-type]


def _fails(path: Path, found: Localized) -> bool:
    """Return whether the test fails in the intended way."""
    tried = f"import runpy; runpy.run_path({str(path)!r})[{TEST!r}]()"
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
    except (OSError, subprocess.TimeoutExpired):
        return False
    expected = (found.error or "AssertionError").partition(":")[0]
    return ended.returncode != 0 and _raised(ended.stderr).endswith(expected)


def _raised(output: str) -> str:
    """Return the type of the last exception of a traceback; its text may have several lines."""
    lines = output.rpartition("Traceback (most recent call last):\n")[2].splitlines()
    first = next((line for line in lines if line and not line.startswith(" ")), "")
    return first.partition(":")[0]


def with_copies(value: Any) -> Any:
    """Return the same containers with copies of their tensors."""
    if isinstance(value, torch.Tensor):
        return value.detach().clone().requires_grad_(value.requires_grad)
    if type(value) in (list, tuple):
        return type(value)(with_copies(part) for part in value)
    if type(value) is dict:
        return {key: with_copies(part) for key, part in value.items()}
    return value
