"""Findings that a user mutes, or whose severity is raised."""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase

import msgspec

from mothtrap.core.config import Config
from mothtrap.core.findings import Finding, Severity, fingerprint


class Quiet:
    """Severities that a user has set, and layers in which some rules are ignored.

    Args:
        severity: by code, or by the beginning of codes; the longest that fits counts.
        per_layer_ignores: codes, or beginnings of them, by glob over layers.
    """

    def __init__(
        self,
        severity: Mapping[str, str] | None = None,
        per_layer_ignores: Mapping[str, tuple[str, ...]] | None = None,
    ) -> None:
        self._severity = dict(severity or {})
        self._ignores = dict(per_layer_ignores or {})

    @classmethod
    def of(cls, config: Config) -> Quiet:
        """Return the quiet setting of a configuration."""
        return cls(config.severity, config.per_layer_ignores)

    def apply(self, finding: Finding) -> Finding | None:
        """Return a finding as it is to be told; None when nothing is left of it.

        A finding without layers is of the whole training: no ignore of a layer hides it.
        """
        layers = tuple(layer for layer in finding.layers if not self._ignored(finding.code, layer))
        if finding.layers and not layers:
            return None
        if layers != finding.layers:
            finding = msgspec.structs.replace(
                finding,
                layers=layers,
                fingerprint=fingerprint(finding.code, layers, finding.mode),
            )
        fitting = [prefix for prefix in self._severity if finding.code.startswith(prefix)]
        if fitting:
            severity = Severity(self._severity[max(fitting, key=len)])
            finding = msgspec.structs.replace(finding, severity=severity)
        return finding

    def _ignored(self, code: str, layer: str) -> bool:
        return any(
            fnmatchcase(layer, glob) and any(code.startswith(prefix) for prefix in prefixes)
            for glob, prefixes in self._ignores.items()
        )
