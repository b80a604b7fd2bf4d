"""Write a script that fails like a step, without the user's code and data.

It contains one operation or one layer of PyTorch, with the fewest values that still produce the
same bits. The script is kept only if it fails when it is run.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import torch
from torch import nn

from mothtrap.adapters.torch.origin.as_test import NO_OPERATION
from mothtrap.adapters.torch.origin.failing_calls import (
    DIGEST_BYTES,
    CallOutcome,
    FailingCall,
    outcome_of,
)
from mothtrap.adapters.torch.origin.minimizing import Minimizer
from mothtrap.adapters.torch.origin.operations import Localized
from mothtrap.adapters.torch.origin.source_rendering import (
    BUILT,
    NotRenderableError,
    SourceRenderer,
)
from mothtrap.core.masking import without_secrets

MAX_LINES = 60
MAX_BYTES = 1 << 20
"""Maximum size of the tensors in the file next to the script, in bytes, uncompressed."""
MAX_LITERAL = 32
"""Maximum number of values of a tensor in the script itself. Chosen by hand: one line."""
TIMEOUT_S = 120.0
"""Maximum time in which a written script must fail; most of it is the import of torch."""
SAME = "reproduced: the same "
_INTEGERS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}

_HEAD = '''"""{title}

Written by `mothtrap replay --repro` with torch {version}. It needs torch{arrays}, and nothing of
the training. It ends with exit code 1 as long as the call below goes wrong.
"""

import hashlib
{imports}

EXPECTED = {expected!r}
{helpers}

def tensors(value):
    """Return the tensors in a result."""
    if isinstance(value, torch.Tensor):
        return [value.detach()]
    parts = value if isinstance(value, (list, tuple)) else ()
    return [one for part in parts for one in tensors(part)]


torch.set_num_threads(1)
{values}
'''
_VALUE = """result = {call}
results = tensors(result) or tensors([{given}])
data = b"".join(bytes(one.cpu().contiguous().reshape(-1).view(torch.uint8)) for one in results)
digest = hashlib.blake2b(data, digest_size={size}).hexdigest()
print(results)
if all(one.float().isfinite().all() for one in results):
    raise SystemExit(print("not reproduced: every value is finite"))
same = "the same bits" if digest == EXPECTED else "not finite, but not the same bits"
raise SystemExit(f"reproduced: {{same}} (digest {{digest}})")
"""
_ERROR = """try:
    {call}
except Exception as error:
    text = f"{{type(error).__name__}}: {{error}}".splitlines()[0]
    same = "the same exception" if text == EXPECTED else "another exception"
    raise SystemExit(f"reproduced: {{same}} ({{text}})") from error
print("not reproduced: nothing was raised")
"""
_ARRAY = '''ARRAYS = np.load(Path(__file__).with_suffix(".npz"), allow_pickle=False)


def tensor(key, dtype, *, requires_grad=False):
    """Return a tensor from the file beside this one."""
    made = torch.from_numpy(ARRAYS[key].copy())
    return (made if made.dtype == dtype else made.view(dtype)).requires_grad_(requires_grad)

'''


class NotReproducedError(Exception):
    """No script was written; the message gives the reason."""


class _Renderer(SourceRenderer):
    """Converts values to source code that uses only torch; small tensors become literals."""

    def _place(self, place: ModuleType) -> str:
        if place.__name__.partition(".")[0] not in ("torch", "builtins", "functools", "math"):
            raise NotRenderableError("it needs code of the training script")
        return super()._place(place)

    def _tensor(self, tensor: torch.Tensor) -> str:
        grad = ", requires_grad=True" if tensor.requires_grad else ""
        device = "" if tensor.device.type == "cpu" else f", device={tensor.device.type!r}"
        values = tensor.detach().cpu()
        if values.layout is torch.strided and not _bits(values).any():
            return f"torch.zeros({list(tensor.shape)}, dtype={tensor.dtype}{device}{grad})"
        if tensor.numel() > MAX_LITERAL or tensor.is_complex():
            return super()._tensor(tensor) + (f".to({tensor.device.type!r})" if device else "")
        literal = f"torch.tensor({_listed(values)}, dtype={tensor.dtype}{device}{grad})"
        if torch.equal(_bits(torch.tensor(values.tolist(), dtype=values.dtype)), _bits(values)):
            return literal
        kind = _INTEGERS[values.itemsize]  # NaN has many bit patterns, but a literal has only one
        whole = f"torch.tensor({values.reshape(-1).view(kind).tolist()}, dtype={kind})"
        shaped = f"{whole}.view({values.dtype}).reshape({list(values.shape)})"
        moved = f".to({tensor.device.type!r})" if device else ""
        return shaped + moved + (".requires_grad_()" if grad else "")


def write(path: Path, found: Localized, step: int) -> str:
    """Write a script that reproduces a failure, with larger tensors in a separate file.

    Args:
        path: path of the script, which ends in `.py`; existing files are not overwritten.
        found: the failure.
        step: number of the step.

    Returns:
        A sentence about the written files.

    Raises:
        NotReproducedError: nothing was written, since no script shows the failure.
    """
    for there in (path, path.with_suffix(".npz")):
        if there.exists():
            raise NotReproducedError(f"{there} already exists")
    why = NO_OPERATION if found.error is None else "the exception needs code of the training"
    try:
        with tempfile.TemporaryDirectory(prefix="mothtrap-") as folder:
            for call in _candidates(found):
                try:
                    return _tried(path, Path(folder) / path.name, call, found, step)
                except (NotRenderableError, NotReproducedError) as err:
                    why = str(err)
    except OSError as err:
        raise NotReproducedError(f"{path}: {err.strerror or err}") from err
    raise NotReproducedError(why)


def _candidates(found: Localized) -> Iterator[FailingCall]:
    """Yield calls that may fail alone, from the most readable to the most exact."""
    call, operation = found.call, found.operation_call
    if operation is not None:
        name = str(operation.function)
        own = name.split(".")[1].rstrip("_") if name.count(".") else ""
        for space in ("torch", "torch.nn.functional"):
            function = _resolved(f"{space}.{own}")
            if function is not None and not own.startswith("_"):
                yield replace(operation, name=f"{space}.{own}", function=function)
        yield replace(operation, name=f"torch.ops.{name}")
    if call is not None and found.error is not None:
        function = _resolved(call.function)
        if function is not None:
            yield FailingCall(
                name=call.function, function=function, args=call.args, kwargs=call.kwargs
            )
        for running in call.running[-1:]:
            if type(running.module).__module__.startswith("torch."):
                yield _of_layer(running.module, running.args, running.kwargs)


def _of_layer(module: nn.Module, args: tuple[Any, ...], kwargs: Any) -> FailingCall:
    """Return the call to a torch layer; its weights become zeros if it still fails."""
    weights = list(module.parameters())
    saved = [weight.detach().clone() for weight in weights]
    with torch.no_grad():
        for weight in weights:
            weight.zero_()  # the training does not continue in this process
    zeroed = FailingCall(name="", function=module, args=args, kwargs=kwargs)
    if outcome_of(zeroed).error:
        return zeroed
    with torch.no_grad():
        for weight, values in zip(weights, saved, strict=True):
            weight.copy_(values)
    return zeroed


def _resolved(name: str) -> Any:
    """Return the torch function with a dotted name, or None."""
    owner, _, own = name.rpartition(".")
    if owner.partition(".")[0] != "torch":
        return None
    place: Any = sys.modules.get(owner) or (torch.Tensor if owner == "torch.Tensor" else None)
    found = getattr(place, own, None)
    return found if callable(found) else None


def _tried(path: Path, draft: Path, call: FailingCall, found: Localized, step: int) -> str:
    """Write the smallest call that fails in the same way; keep it if the script fails, too."""
    plain = call.with_arguments(lambda one: one.detach().contiguous().requires_grad_(_is_leaf(one)))
    failure = outcome_of(plain)
    if not failure.is_bad or (found.error or "").partition("\n")[0] not in ("", failure.error):
        raise NotReproducedError(f"{call.name or 'the layer'} does not fail on its own")
    if found.error is None and failure.error:
        raise NotReproducedError(f"{call.name} alone raises {failure.error}")
    smallest = Minimizer(failure).smallest(plain)
    renderer = _Renderer()
    source = _source(smallest, outcome_of(smallest), renderer, found, step)
    if without_secrets(source) != source or any(one in source for one in _own_folders()):
        raise NotReproducedError("the failing call contains a secret or a folder of this machine")
    if len(source.splitlines()) > MAX_LINES:
        raise NotReproducedError(f"the script has more than {MAX_LINES} lines")
    size = sum(array.nbytes for array in renderer.arrays.values())
    if size > MAX_BYTES:
        raise NotReproducedError(f"its smallest tensors have {size:,} bytes; {MAX_BYTES:,} fit")
    draft.write_text(source, encoding="utf-8")
    if renderer.arrays:
        with draft.with_suffix(".npz").open("wb") as file:
            np.savez_compressed(file, **renderer.arrays)  # type: ignore[arg-type]
    if not _fails(draft):
        raise NotReproducedError(f"{call.name or 'the layer'} does not fail on its own in a script")
    for suffix in [".npz"] * bool(renderer.arrays) + [".py"]:
        with path.with_suffix(suffix).open("xb") as file:  # never overwrite another script
            file.write(draft.with_suffix(suffix).read_bytes())
    beside = f" (needs {path.stem}.npz in its folder)" if renderer.arrays else ""
    return f"{path.name} reproduces it without the script: python {path}{beside}"


def _own_folders() -> set[str]:
    """Return the folders that a script must not name."""
    return {folder for one in (Path.cwd(), Path.home()) if len(folder := str(one)) > 1}


def _is_leaf(tensor: torch.Tensor) -> bool:
    return tensor.requires_grad and tensor.is_leaf


def _source(
    call: FailingCall, outcome: CallOutcome, renderer: _Renderer, found: Localized, step: int
) -> str:
    """Return the script."""
    names = {id(one): f"x{place}" for place, one in enumerate(call.tensors())}
    lines = [f"{names[id(one)]} = {renderer.of(one)}" for one in call.tensors()]
    written = _Named(renderer, names)
    parts = [written.of(part) for part in call.args]
    parts += [f"{key}={written.of(value)}" for key, value in call.kwargs.items()]
    function = call.name
    if not function:
        lines.append(f"layer = {renderer.module(call.function)}")  # type: ignore[arg-type]
        function = "layer"
    template = _ERROR if outcome.error else _VALUE
    body = template.format(
        call=f"{function}({', '.join(parts)})", given=", ".join(names.values()), size=DIGEST_BYTES
    )
    helpers = "\n" + (BUILT if "built(" in "".join(lines) else "")
    imports = sorted({name for name in renderer.imports if name != "builtins"})
    if renderer.arrays:
        helpers, imports = f"{_ARRAY}{helpers}", ["numpy as np", *imports]
    head = _HEAD.format(
        title=_title(found, step),
        version=torch.__version__,
        arrays=" and numpy" * bool(renderer.arrays),
        imports="\n".join(
            ["from pathlib import Path"] * bool(renderer.arrays) + [f"import {n}" for n in imports]
        ),
        expected=outcome.error or outcome.digest,
        helpers=helpers.rstrip("\n") + "\n" if helpers.strip() else "",
        values="\n".join(lines),
    )
    return head + body


class _Named:
    """Source of arguments whose tensors have names."""

    def __init__(self, renderer: _Renderer, names: dict[int, str]) -> None:
        self._renderer, self._names = renderer, names

    def of(self, value: Any) -> str:
        if isinstance(value, torch.Tensor):
            return self._names[id(value)]
        if type(value) is list:
            return f"[{', '.join(self.of(part) for part in value)}]"
        if type(value) is tuple:
            return f"({''.join(f'{self.of(part)}, ' for part in value)})"
        return self._renderer.of(value)


def _title(found: Localized, step: int) -> str:
    """Return the first line, which describes the fault without folders and secrets."""
    what = found.operation or found.holder or found.module or "a layer"
    verb = f"raised {found.error.partition(':')[0]}" if found.error else "made bad values"
    if found.holder:
        verb = "already had bad values"
    place = f" at {Path(found.location).name}" if found.location else ""
    text = f"Step {step} of a training run: {what} {verb}{place}."
    return without_secrets(text.replace("\\", "/").replace('"', "'"))[:98]


def _bits(values: torch.Tensor) -> torch.Tensor:
    flat = values.contiguous().reshape(-1)
    return flat.view(torch.uint8) if flat.numel() else flat


def _listed(values: torch.Tensor) -> str:
    text = str(values.tolist())
    return text.replace("nan", "float('nan')").replace("inf", "float('inf')")


def _fails(path: Path) -> bool:
    """Return whether the script shows the same failure, in a process without mothtrap."""
    keeps = ("PATH", "HOME", "SYSTEMROOT", "TEMP", "TMP", "LD_LIBRARY_PATH", "VIRTUAL_ENV")
    environment = {name: os.environ[name] for name in keeps if name in os.environ}
    try:
        ended = subprocess.run(
            [sys.executable, "-E", "-s", str(path)],
            cwd=path.parent,
            env={**environment, "MOTHTRAP_DISABLE": "1"},
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return ended.returncode == 1 and SAME in ended.stderr
