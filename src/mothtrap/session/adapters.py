"""Find the adapter of a framework, or of an object, through the registry."""

from __future__ import annotations

import sys
from types import ModuleType

from mothtrap.capture.containment import say_on_stderr
from mothtrap.core import registry
from mothtrap.core.errors import PluginError
from mothtrap.session.triggers import PACKAGE, frameworks
from mothtrap.tracing.handle import AdapterSpec

_old_forms: set[str] = set()
"""Frameworks for which the old form of their adapter was reported."""


def load(framework: str) -> AdapterSpec:
    """Import an adapter and its framework.

    Raises:
        UnknownNameError: there is no adapter with that name.
        PluginError: the adapter belongs to another distribution, and cannot be used.
    """
    module = registry.load(PACKAGE, framework)
    spec = spec_of(module)
    if spec.framework != framework:
        raise PluginError(
            f"the adapter {module.__name__}",
            f"it is registered as {framework!r}, but its ADAPTER has framework="
            f"{spec.framework!r}; both must be the import name of the framework",
        )
    return spec


def spec_of(module: ModuleType) -> AdapterSpec:
    """Return the `ADAPTER` of a module, or, for one release, a spec created from the old form.

    In the old form, each attribute of `AdapterSpec` is a name or a function of the module.

    Raises:
        PluginError: the module has neither.
    """
    found = getattr(module, "ADAPTER", None)
    if isinstance(found, AdapterSpec):
        return found
    if not hasattr(module, "FRAMEWORK"):
        raise PluginError(
            f"the adapter {module.__name__}",
            "it has no ADAPTER, which must be an AdapterSpec of mothtrap.tracing.handle",
        )
    if module.FRAMEWORK not in _old_forms:
        _old_forms.add(module.FRAMEWORK)
        say_on_stderr(
            f"mothtrap: the adapter {module.__name__} has no ADAPTER, which the next version will "
            "require; define it with mothtrap.tracing.handle.AdapterSpec"
        )
    return AdapterSpec(
        framework=module.FRAMEWORK,
        handle=lambda job, of: module.attach(job, of) if of else module.attach_process(job),
        requires=module.REQUIRES,
        arrays=module.ARRAYS,
        reports=module.REPORTS,
        watched=module.accepts,
        beside=(object,),  # the module itself rejects objects
        refines=module.refines(),
        steps=module.STEPS,
        replay=lambda plan: module.attach_replay(plan),
        place=module.environment,
    )


def adapters_of(target: object) -> tuple[AdapterSpec, ...]:
    """Return the adapters that can watch an object, by the modules of its type and base types.

    The adapter of the most derived type is used, or else the adapter of an imported framework that
    accepts the object (a tree of arrays is a plain `dict`). An adapter comes before the adapter
    that it refines.

    Raises:
        TypeError: no adapter accepts it.
    """
    known = frameworks()
    roots = dict.fromkeys(base.__module__.partition(".")[0] for base in type(target).__mro__)
    imported = (name for name in known if name in sys.modules)
    for name in (*roots, *imported):
        if name in known and (adapter := load(name)).accepts(target):
            break
    else:
        raise TypeError(
            f"cannot watch a {type(target).__module__}.{type(target).__qualname__}: no adapter "
            f"accepts it; mothtrap knows models of: {', '.join(known)}"
        )
    found = [adapter]
    while (refined := found[0].refines) is not None:
        found.insert(0, load(refined))
    return tuple(found)
