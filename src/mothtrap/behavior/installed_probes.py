"""Probes that are installed, found through the registry."""

from __future__ import annotations

import functools
from collections.abc import Sequence

from mothtrap.behavior.probe import Probe
from mothtrap.core import registry
from mothtrap.core.errors import ConfigError, nearest

PACKAGE = "mothtrap.behavior.probes"


@functools.cache
def probe_classes() -> tuple[type[Probe], ...]:
    """Return all probes, sorted by code.

    Raises:
        PluginError: a probe of another package cannot be imported.
    """
    found = [registry.only_class(part.load(), Probe, "probe") for part in registry.parts(PACKAGE)]
    return tuple(sorted(found, key=lambda probe: probe.code))


def selected(
    select: Sequence[str] = (), ignore: Sequence[str] = (), *, further: Sequence[str] = ()
) -> tuple[Probe, ...]:
    """Return the selected probes, cheapest first.

    Args:
        select: Code prefixes to include; empty = all.
        ignore: Code prefixes to exclude.
        further: Further valid codes: the codes of the user's assertions.

    Raises:
        ConfigError: a prefix matches no code.
    """
    classes = probe_classes()
    for word in (*select, *ignore):
        codes = [*(probe.code for probe in classes), *further]
        if not any(code.startswith(word) for code in codes):
            raise ConfigError(
                f"no probe has a code that begins with {word!r}{nearest(word, codes)}"
            )
    wanted = [
        probe()
        for probe in classes
        if (not select or probe.code.startswith(tuple(select)))
        and not (ignore and probe.code.startswith(tuple(ignore)))
    ]
    return tuple(sorted(wanted, key=lambda probe: (probe.cost, probe.code)))


def explanations() -> dict[str, frozenset[str]]:
    """Return, for each probe code, the codes of the probes whose findings it causes."""
    codes = {probe.name(): probe.code for probe in probe_classes()}
    return {
        probe.code: frozenset(codes[name] for name in probe.explains if name in codes)
        for probe in probe_classes()
    }
