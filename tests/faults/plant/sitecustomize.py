"""Break one part of mothtrap in the processes of an observed job, and nowhere else.

`PLANT` selects the fault: `module:function` or `module:Class.method` raises from its first call on,
`module:!full` makes every write of the module's `os` find the disk full once `PLANT_AFTER` writes
are done. Every call that failed is noted in the file `PLANT_LOG`, so that a test can verify that
the fault was reached.
"""

import errno
import importlib.util
import os
import sys
import types

FULL = "!full"


def note() -> None:
    with open(os.environ["PLANT_LOG"], "a", encoding="utf-8") as log:
        log.write("met\n")


def broken(*_: object, **__: object) -> None:
    note()
    raise RuntimeError("planted failure")


def full_disk() -> types.SimpleNamespace:
    writes = [int(os.environ.get("PLANT_AFTER", "0"))]

    def write(file: int, data: memoryview) -> int:
        if writes[0] > 0:
            writes[0] -= 1
            return os.write(file, data)
        note()
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    return types.SimpleNamespace(**(vars(os) | {"write": write}))


class Planter:
    """Lets all other finders find the module, and breaks it once it has been executed."""

    def __init__(self, module: str, path: str) -> None:
        self._module, self._path = module, path

    def find_spec(self, name: str, *_: object) -> object:
        if name != self._module:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        assert spec is not None
        assert spec.loader is not None
        run = spec.loader.exec_module

        def exec_module(module: types.ModuleType) -> None:
            run(module)
            if self._path == FULL:
                module.os = full_disk()
                return
            owner, _, attribute = f".{self._path}".rpartition(".")
            target = getattr(module, owner[1:]) if owner else module
            assert hasattr(target, attribute), f"nothing is called {self._path}"
            setattr(target, attribute, broken)

        spec.loader.exec_module = exec_module
        return spec


if os.environ.get("MOTHTRAP_RUN_DIR"):
    for name in [name for name in sys.modules if name.partition(".")[0] == "mothtrap"]:
        del sys.modules[name]  # if it was imported before, it must be imported again
    sys.meta_path.insert(0, Planter(*os.environ["PLANT"].split(":")))
