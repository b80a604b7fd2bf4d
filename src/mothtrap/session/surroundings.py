"""Surroundings of a process, for any framework: versions, hardware, variables, sources."""

from __future__ import annotations

import importlib.util
import os
import platform
import re
import site
import sys
import sysconfig
import threading
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import psutil

from mothtrap.core.ledger import LedgerValue
from mothtrap.core.loaded_modules import MAIN, LoadedModules
from mothtrap.core.working_folder import absolute, shown
from mothtrap.store.source_digests import digest_of

VARIABLES = (
    *("PYTHONHASHSEED", "PYTHONOPTIMIZE", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "MKL_DYNAMIC"),
    *("MKL_CBWR", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS", "KMP_AFFINITY", "OMP_PROC_BIND"),
    *("CUBLAS_WORKSPACE_CONFIG", "CUDA_VISIBLE_DEVICES", "CUDA_LAUNCH_BLOCKING"),
    *("CUDA_DEVICE_ORDER", "NVIDIA_TF32_OVERRIDE", "NCCL_ALGO", "NCCL_PROTO", "WORLD_SIZE"),
    *("LOCAL_WORLD_SIZE", "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE", "PYTORCH_CUDA_ALLOC_CONF"),
    *("PYTORCH_ALLOC_CONF", "TORCHINDUCTOR_MAX_AUTOTUNE", "TORCH_COMPILE_DISABLE"),
    *("HF_DATASETS_OFFLINE", "TOKENIZERS_PARALLELISM", "LC_ALL", "LANG", "TZ"),
)
"""Variables that are stored; all others may contain secrets."""
MAX_VALUE = 200
MAX_SOURCES = 500
_modules = LoadedModules()
_packages: dict[str, None] = {}
_files: dict[str, str] = {}
"""Names of the installed packages, and files of the user's modules, found in `_modules`."""
_looking = threading.Lock()
_OURS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_OF_PYTHON = tuple(
    folder + os.sep for folder in (_OURS, os.path.dirname(os.path.abspath(os.__file__)))
)


def python_facts() -> dict[str, dict[str, LedgerValue]]:
    """Describe this process; takes about 10 ms at the first call, and may run in any thread."""
    packages, files = _loaded()
    return {
        "determinism": {"python.hash_randomization": bool(sys.flags.hash_randomization)},
        "versions": {"python": platform.python_version(), **_versions(packages)},
        "hardware": hardware(),
        "environment": environment(os.environ),
        "sources": _digests(files),
    }


def _loaded() -> tuple[list[str], list[str]]:
    """Return the installed packages and the user's files among all modules."""
    with _looking:
        modules, are_all = _modules.look()
        if are_all:
            _packages.clear()
            _files.clear()
        _packages.update(dict.fromkeys(_installed_in(modules)))
        _files.update(_users_files(modules))
        others = [file for name, file in _files.items() if name != MAIN]
        return list(_packages), [*_users_files({MAIN: modules[MAIN]}).values(), *others]


def versions(modules: Mapping[str, object]) -> dict[str, LedgerValue]:
    """Return the versions of the packages from which modules were imported.

    Uses the names of the folders that installers leave next to them, otherwise the module's own
    `__version__`; no package is called or imported.

    Args:
        modules: modules by name, as in `sys.modules`.
    """
    return _versions(_installed_in(modules), modules)


def _installed_in(modules: Mapping[str, object]) -> list[str]:
    """Return the names of modules that are installed packages."""
    files = {
        name: _held(module).get("__file__") for name, module in modules.items() if "." not in name
    }
    return [name for name, file in files.items() if isinstance(file, str) and _is_installed(file)]


def _versions(
    packages: Iterable[str], modules: Mapping[str, object] = sys.modules
) -> dict[str, LedgerValue]:
    installed = _installed()
    found: dict[str, LedgerValue] = {}
    for name in sorted(packages):
        version = installed.get(_normal(name)) or _held(modules.get(name)).get("__version__")
        if isinstance(version, str) and version:
            found[name] = version[:MAX_VALUE]
    return found


def hardware() -> dict[str, LedgerValue]:
    """Return processor, memory and system of this machine."""
    try:
        usable = len(os.sched_getaffinity(0))
    except (AttributeError, OSError):
        usable = os.cpu_count() or 0
    return {
        "system": f"{platform.system()} {platform.release()}",
        "machine": platform.machine(),
        "processor": _processor(),
        "cores": os.cpu_count(),
        "usable_cores": usable,
        "memory_gib": round(psutil.virtual_memory().total / 2**30, 1),
    }


def environment(environ: Mapping[str, str]) -> dict[str, LedgerValue]:
    """Return the variables of `VARIABLES` that are set."""
    return {name: environ[name][:MAX_VALUE] for name in VARIABLES if name in environ}


def sources(modules: Mapping[str, object]) -> dict[str, LedgerValue]:
    """Return digests of the files of modules that belong to no distribution, by path."""
    return _digests(_users_files(modules).values())


def _users_files(modules: Mapping[str, object]) -> dict[str, str]:
    """Return the files of modules that belong to no distribution, by name of the module."""
    found: dict[str, str] = {}
    for name, module in modules.items():
        # Python removes the file of the script when the script has ended.
        path = _held(module).get("__file__", sys.argv[0] if name == "__main__" else None)
        if not isinstance(path, str) or not path.endswith(".py"):
            continue
        if _is_installed(path) or _is_of_python(path):
            continue  # most modules; `absolute` would take longer
        whole = absolute(path)
        if _is_installed(whole) or _is_of_python(whole):
            continue
        if os.path.basename(whole).startswith("__autograph_generated_file"):
            continue  # TensorFlow writes such a file for each function that it rewrites
        found[name] = whole
    return found


def _digests(files: Iterable[str]) -> dict[str, LedgerValue]:
    found: dict[str, LedgerValue] = {}
    for file in files:
        if len(found) >= MAX_SOURCES:
            break
        digest = digest_of(Path(file))
        if digest is not None:
            found[shown(file)] = digest
    return dict(sorted(found.items()))


def installed_versions(wanted: Iterable[str]) -> dict[str, LedgerValue]:
    """Return the installed versions of the packages in a ledger, without importing them.

    Args:
        wanted: names of modules.

    Returns:
        Versions by module; None if it is not installed. Installed modules whose distribution has a
        different name are omitted, because their version is unknown.
    """
    installed = _installed()
    found: dict[str, LedgerValue] = {"python": platform.python_version()}
    for name in wanted:
        if _normal(name) in installed:
            found[name] = installed[_normal(name)]
        elif name != "python" and not _is_importable(name):
            found[name] = None
    return found


def _held(module: object) -> Mapping[str, object]:
    """Return the contents of a module; empty for a module that loads lazily."""
    try:
        found = object.__getattribute__(module, "__dict__")
    except AttributeError:
        return {}
    return found if isinstance(found, dict) else {}


def _installed() -> dict[str, str]:
    """Return versions of installed packages, by normalized name."""
    found: dict[str, str] = {}
    for name, version, _ in package_folders():
        found.setdefault(name, version)
    return found


def package_folders() -> Iterator[tuple[str, str, str]]:
    """Yield normalized name, version, and folder of each installed package.

    A package may be installed twice; Python imports the first.
    """
    for folder in _folders():
        try:
            names = os.listdir(folder)
        except OSError:
            continue
        for name in names:
            match = re.fullmatch(r"(.+?)-([^-]+)(?:-py[\d.]+)?\.(?:dist|egg)-info", name)
            if match:
                yield _normal(match.group(1)), match.group(2), os.path.join(folder, name)


def _is_importable(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except (ImportError, ValueError):
        return False


def _folders() -> Iterable[str]:
    paths = [sysconfig.get_path("purelib"), sysconfig.get_path("platlib")]
    return dict.fromkeys(map(os.path.abspath, [*paths, *site.getsitepackages(), *sys.path[1:]]))


def _is_installed(path: str) -> bool:
    parts = path.split(os.sep)
    return "site-packages" in parts or "dist-packages" in parts


def _is_of_python(path: str) -> bool:
    return path.startswith(_OF_PYTHON)


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _processor() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            for line in file:
                if line.startswith("model name"):
                    return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor()
