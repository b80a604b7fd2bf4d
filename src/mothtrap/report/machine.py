"""Machine metrics in words: the last value, and the range over the run."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
import numpy as np

from mothtrap.store.machine_log import MachineSeries

NAMES = {
    "cpu_percent": "CPU",
    "memory_percent": "memory",
    "memory_used": "memory used",
    "disk_free": "disk free",
    "disk_read": "disk read",
    "disk_write": "disk written",
    "network_received": "network received",
    "network_sent": "network sent",
    "gpu_percent": "GPU",
    "gpu_memory_percent": "GPU memory",
    "gpu_memory_used": "GPU memory used",
}
_RATES = ("disk_read", "disk_write", "network_received", "network_sent")


class MachineRow(msgspec.Struct, frozen=True, kw_only=True):
    """One machine metric: last value, median, 95th percentile, and maximum, as text."""

    what: str
    last: str
    median: str
    p95: str
    most: str


def machine_rows(series: Mapping[tuple[str, str], MachineSeries]) -> tuple[MachineRow, ...]:
    """Return a row for each sampled machine metric, in a fixed order."""
    rows = []
    for name, words in NAMES.items():
        for (found, of), values in sorted(series.items()):
            if found != name or not len(values.values):
                continue
            p50, p95 = np.percentile(values.values, (50, 95))
            most = values.values.max()
            shown = [_words(name, float(v)) for v in (values.values[-1], p50, p95, most)]
            what = f"{words} {of}".rstrip()
            rows.append(
                MachineRow(what=what, last=shown[0], median=shown[1], p95=shown[2], most=shown[3])
            )
    return tuple(rows)


def _words(name: str, value: float) -> str:
    if name.endswith("percent"):
        return f"{value:.0f} %"
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if value < 1000 or unit == "TB":
            break
        value /= 1000
    return f"{value:.3g} {unit}" + "/s" * (name in _RATES)
