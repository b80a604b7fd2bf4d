"""Settings from the parsers of a script: argparse, hydra, OmegaConf.

Imports only the standard library: the start-up hook loads it in every Python process of a
job that imports one of these parsers.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any

PARSERS = ("argparse", "hydra.core.utils", "omegaconf.omegaconf")
"""Modules after whose import `install` is called."""
MADE_BY = ("merge", "from_cli", "load", "structured", "create")
"""Functions of OmegaConf that create settings; the last result of the first function counts."""

_parsed: dict[str, tuple[object, dict[str, object]]] = {}
_installed: set[str] = set()
_taken: list[bool] = []
_depth = [0]


def install(parser: str) -> None:
    """Wrap a parser's functions that create settings; safe to call twice."""
    module: Any = sys.modules.get(parser)
    if module is None or parser in _installed:
        return
    _installed.add(parser)
    if parser == "argparse":
        kind = module.ArgumentParser
        kind.parse_known_args = _around_arguments(kind.parse_known_args)
    elif parser == "hydra.core.utils":
        module.run_job = _around_job(module.run_job)
    else:
        for name in MADE_BY:
            if hasattr(module.OmegaConf, name):
                made = _around_config(getattr(module.OmegaConf, name), name)
                setattr(module.OmegaConf, name, staticmethod(made))


def take() -> dict[str, tuple[object, dict[str, object]]]:
    """Return each parser's latest result with defaults by name, and stop keeping results."""
    found = dict(_parsed)
    _parsed.clear()
    _taken[:] = [True]
    return found


def _keep(parser: str, made: object, defaults: dict[str, object]) -> None:
    if not _taken:
        _parsed[parser] = made, defaults


def _around_arguments(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def parse_known_args(self: Any, *args: Any, **kwargs: Any) -> Any:
        _depth[0] += 1
        try:
            result = original(self, *args, **kwargs)
        except BaseException as err:
            if err.__traceback__ is not None:
                err.__traceback__ = err.__traceback__.tb_next  # without this frame
            raise
        finally:
            _depth[0] -= 1
        if not _depth[0]:  # of several parsers with subcommands, the outermost one
            _see_arguments(self, result)
        return result

    return parse_known_args


def _see_arguments(parser: Any, result: Any) -> None:
    try:
        namespace, _ = result
        actions = [each for each in parser._actions if isinstance(each.dest, str)]
        _keep("argparse", namespace, {each.dest: each.default for each in actions})
    except Exception:  # an unknown parser, whose settings are not recorded
        return


def _around_job(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def run_job(*args: Any, **kwargs: Any) -> Any:
        _keep("hydra", kwargs.get("config", args[1] if len(args) > 1 else None), {})
        try:
            return original(*args, **kwargs)
        except BaseException as err:
            if err.__traceback__ is not None:
                err.__traceback__ = err.__traceback__.tb_next  # without this frame
            raise

    return run_job


def _around_config(original: Callable[..., Any], name: str) -> Callable[..., Any]:
    @functools.wraps(original)
    def make(*args: Any, **kwargs: Any) -> Any:
        try:
            made = original(*args, **kwargs)
        except BaseException as err:
            if err.__traceback__ is not None:
                err.__traceback__ = err.__traceback__.tb_next  # without this frame
            raise
        _keep(f"OmegaConf.{name}", made, {})
        return made

    return make
