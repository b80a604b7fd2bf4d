"""Known findings: kept in a file, and not reported again."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import msgspec

from mothtrap.core import jsonable
from mothtrap.core.errors import ConfigError
from mothtrap.core.findings import Finding, Severity

VERSION = 1


class Known(msgspec.Struct, frozen=True, kw_only=True):
    """A finding of a baseline; fields other than fingerprint and severity are for readers."""

    fingerprint: str
    severity: Severity
    code: str
    name: str
    layers: tuple[str, ...] = ()


class Baseline(msgspec.Struct, frozen=True, kw_only=True):
    """The content of a baseline file: findings by code and layer."""

    version: int = VERSION
    findings: tuple[Known, ...] = ()

    def holds(self, finding: Finding) -> bool:
        """Return whether a finding is in the baseline with at least this severity."""
        return any(
            known.fingerprint == finding.fingerprint
            and known.severity.rank <= finding.severity.rank
            for known in self.findings
        )


def write_baseline(path: Path, findings: Iterable[Finding]) -> int:
    """Write findings to a baseline file, one per line; return their number."""
    known = [
        Known(
            fingerprint=f.fingerprint,
            severity=f.severity,
            code=f.code,
            name=f.name,
            layers=f.layers,
        )
        for f in sorted(findings, key=lambda f: (f.code, f.layers[:1], f.fingerprint))
    ]
    content = Baseline(findings=tuple(known))
    path.write_bytes(msgspec.json.format(msgspec.json.encode(content), indent=2) + b"\n")
    return len(known)


def read_baseline(path: Path) -> Baseline:
    """Read a baseline.

    Raises:
        ConfigError: the file does not exist or is not a baseline.
    """
    try:
        content = jsonable.decode(path.read_bytes(), Baseline)
    except OSError as err:
        raise ConfigError(
            f"cannot read the baseline {path}: {err.strerror}; create one with mothtrap show "
            "--save-baseline"
        ) from err
    except msgspec.DecodeError as err:
        raise ConfigError(f"{path} is not a baseline: {err}") from err
    if content.version != VERSION:
        raise ConfigError(
            f"{path} is a baseline of version {content.version}; this mothtrap reads {VERSION}"
        )
    return content
