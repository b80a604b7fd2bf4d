"""mothtrap: a debugger for machine-learning training.

Importing it loads no framework, patches nothing and starts nothing; each name below is
loaded when it is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mothtrap.behavior.assertion import Assertion as Assertion
    from mothtrap.behavior.assertion import assertion as assertion
    from mothtrap.behavior.latent import latent_space as latent_space
    from mothtrap.core.collections import Collection as Collection
    from mothtrap.core.errors import MothtrapError as MothtrapError
    from mothtrap.core.errors import NotApplicable as NotApplicable
    from mothtrap.core.errors import NotEnoughData as NotEnoughData
    from mothtrap.core.findings import Finding as Finding
    from mothtrap.core.findings import Severity as Severity
    from mothtrap.core.found import Found as Found
    from mothtrap.core.needs import Need as Need
    from mothtrap.core.own_rules import rule as rule
    from mothtrap.core.rule import Rule as Rule
    from mothtrap.core.schedule import Schedule as Schedule
    from mothtrap.core.steps import StepKey as StepKey
    from mothtrap.core.stopping import StopTraining as StopTraining
    from mothtrap.core.tensors import TensorInfo as TensorInfo
    from mothtrap.core.thresholds import threshold as threshold
    from mothtrap.core.window import Matrix as Matrix
    from mothtrap.core.window import Series as Series
    from mothtrap.core.window import Window as Window
    from mothtrap.exports import export_run as export_run
    from mothtrap.monitor.stored.sweep import Analysis as Analysis
    from mothtrap.monitor.stored.sweep import analyze as analyze
    from mothtrap.reader.plots import Chart as Chart
    from mothtrap.reader.plots import Plots as Plots
    from mothtrap.reader.run import Run as Run
    from mothtrap.reader.run import open_run as open_run
    from mothtrap.reader.run_record import Record as Record
    from mothtrap.reader.runs import Runs as Runs
    from mothtrap.reader.runs import runs as runs
    from mothtrap.reader.series.steps import StepState as StepState
    from mothtrap.reader.series.steps import StepStatus as StepStatus
    from mothtrap.reader.series.steps import Timeline as Timeline
    from mothtrap.reader.tensors.captured_tensors import Tensor as Tensor
    from mothtrap.reader.tensors.exponent_counts import Exponents as Exponents
    from mothtrap.reader.tensors.exponent_counts import Fit as Fit
    from mothtrap.session.callbacks import LightningCallback as LightningCallback
    from mothtrap.session.callbacks import RayCallback as RayCallback
    from mothtrap.session.callbacks import TrainerCallback as TrainerCallback
    from mothtrap.session.explicit_check import CheckReport as CheckReport
    from mothtrap.session.explicit_check import check as check
    from mothtrap.session.fit_callback import KerasCallback as KerasCallback
    from mothtrap.session.job_stop import on_stop as on_stop
    from mothtrap.session.module_log import log as log
    from mothtrap.session.module_log import log_artifact as log_artifact
    from mothtrap.session.module_log import log_figure as log_figure
    from mothtrap.session.module_log import log_image as log_image
    from mothtrap.session.module_log import log_params as log_params
    from mothtrap.session.module_log import log_predictions as log_predictions
    from mothtrap.session.module_log import log_table as log_table
    from mothtrap.session.module_log import log_tensor as log_tensor
    from mothtrap.session.module_log import log_text as log_text
    from mothtrap.session.probing import probe as probe
    from mothtrap.session.serving import asserted as asserted
    from mothtrap.session.watching import Watch as Watch
    from mothtrap.session.watching import watch as watch

_HOMES = {
    "Analysis": "mothtrap.monitor.stored.sweep",
    "Assertion": "mothtrap.behavior.assertion",
    "Chart": "mothtrap.reader.plots",
    "CheckReport": "mothtrap.session.explicit_check",
    "Collection": "mothtrap.core.collections",
    "Exponents": "mothtrap.reader.tensors.exponent_counts",
    "Finding": "mothtrap.core.findings",
    "Fit": "mothtrap.reader.tensors.exponent_counts",
    "Found": "mothtrap.core.found",
    "KerasCallback": "mothtrap.session.fit_callback",
    "LightningCallback": "mothtrap.session.callbacks",
    "Matrix": "mothtrap.core.window",
    "MothtrapError": "mothtrap.core.errors",
    "Need": "mothtrap.core.needs",
    "NotApplicable": "mothtrap.core.errors",
    "NotEnoughData": "mothtrap.core.errors",
    "Plots": "mothtrap.reader.plots",
    "RayCallback": "mothtrap.session.callbacks",
    "Record": "mothtrap.reader.run_record",
    "Rule": "mothtrap.core.rule",
    "Run": "mothtrap.reader.run",
    "Runs": "mothtrap.reader.runs",
    "Schedule": "mothtrap.core.schedule",
    "Series": "mothtrap.core.window",
    "Severity": "mothtrap.core.findings",
    "StepKey": "mothtrap.core.steps",
    "StepState": "mothtrap.reader.series.steps",
    "StepStatus": "mothtrap.reader.series.steps",
    "StopTraining": "mothtrap.core.stopping",
    "Tensor": "mothtrap.reader.tensors.captured_tensors",
    "TensorInfo": "mothtrap.core.tensors",
    "Timeline": "mothtrap.reader.series.steps",
    "TrainerCallback": "mothtrap.session.callbacks",
    "Watch": "mothtrap.session.watching",
    "Window": "mothtrap.core.window",
    "analyze": "mothtrap.monitor.stored.sweep",
    "asserted": "mothtrap.session.serving",
    "assertion": "mothtrap.behavior.assertion",
    "check": "mothtrap.session.explicit_check",
    "export_run": "mothtrap.exports",
    "latent_space": "mothtrap.behavior.latent",
    "log": "mothtrap.session.module_log",
    "log_artifact": "mothtrap.session.module_log",
    "log_figure": "mothtrap.session.module_log",
    "log_image": "mothtrap.session.module_log",
    "log_params": "mothtrap.session.module_log",
    "log_predictions": "mothtrap.session.module_log",
    "log_table": "mothtrap.session.module_log",
    "log_text": "mothtrap.session.module_log",
    "log_tensor": "mothtrap.session.module_log",
    "on_stop": "mothtrap.session.job_stop",
    "open_run": "mothtrap.reader.run",
    "probe": "mothtrap.session.probing",
    "rule": "mothtrap.core.own_rules",
    "runs": "mothtrap.reader.runs",
    "threshold": "mothtrap.core.thresholds",
    "watch": "mothtrap.session.watching",
}

__all__ = [
    "Analysis",
    "Assertion",
    "Chart",
    "CheckReport",
    "Collection",
    "Exponents",
    "Finding",
    "Fit",
    "Found",
    "KerasCallback",
    "LightningCallback",
    "Matrix",
    "MothtrapError",
    "Need",
    "NotApplicable",
    "NotEnoughData",
    "Plots",
    "RayCallback",
    "Record",
    "Rule",
    "Run",
    "Runs",
    "Schedule",
    "Series",
    "Severity",
    "StepKey",
    "StepState",
    "StepStatus",
    "StopTraining",
    "Tensor",
    "TensorInfo",
    "Timeline",
    "TrainerCallback",
    "Watch",
    "Window",
    "analyze",
    "asserted",
    "assertion",
    "check",
    "export_run",
    "latent_space",
    "log",
    "log_artifact",
    "log_figure",
    "log_image",
    "log_params",
    "log_predictions",
    "log_table",
    "log_tensor",
    "log_text",
    "on_stop",
    "open_run",
    "probe",
    "rule",
    "runs",
    "threshold",
    "watch",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'mothtrap' has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
