"""Findings that a user hides, or whose severity the user changes."""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase

import msgspec

from mothtrap.core.config import Config
from mothtrap.core.findings import Finding, Severity, fingerprint


class Quiet:
    """The user's severities, and the layers in which rules are ignored.

    Args:
        severity: severity by code or code prefix; the longest match counts.
        per_layer_ignores: codes or code prefixes, by glob over layers.
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
        """Create the quiet settings of a configuration."""
        return cls(config.severity, config.per_layer_ignores)

    def apply(self, finding: Finding) -> Finding | None:
        """Return a finding as it should be reported; None if it is ignored completely.

        A finding without layers concerns the whole training run, so it is never hidden by layer.
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
