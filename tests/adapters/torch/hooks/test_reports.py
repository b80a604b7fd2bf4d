"""Everything that a PyTorch job can report is listed among its reports, and is produced."""

from __future__ import annotations

import ast
from pathlib import Path

import torch
from torch import nn

import mothtrap
from mothtrap.adapters import torch as adapter
from mothtrap.adapters.torch.hooks.reports import IN_EACH_STEP, IN_FULL_STEPS
from mothtrap.core.config import Config
from mothtrap.core.facts.looks import AdapterReports, Looked
from mothtrap.core.findings import RuleState
from mothtrap.core.needs import Need, facts_of
from mothtrap.monitor.catalogue import load_rules

SOURCE = Path(adapter.__file__).parent
PARTS_OF_FACTS = {"CheckResult", "CollectiveCall", "DropoutRate", "LayerRow", "LayerScale"}
PARTS_OF_FACTS |= {"SampleBatch", "TargetSample"}
"""Facts that are parts of others, or that come from a check and not from training."""
STEPS = 90


OF_OTHERS = ("trees", "estimators", "functions", "compiling", "trainers", "epochs", "pipelines")
"""Modules of facts that come from trainers, and from frameworks without modules or eager mode."""


OF_KERAS = ("MetricBroadcast", "OpposedOptimizers", "SingleTimeSteps", "StatesKept")
"""Facts that only Keras reports."""


def _is_of_others(need: Need) -> bool:
    return any(
        fact.__module__.rpartition(".")[2] in OF_OTHERS or fact.__name__ in OF_KERAS
        for fact in need.facts
    )


def test_every_fact_that_the_adapter_makes_is_reported() -> None:
    made = {
        alias.name
        for path in SOURCE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom)
        and (node.module or "").startswith("mothtrap.core.facts")
        for alias in node.names
    }
    assert made - PARTS_OF_FACTS <= {fact.__name__ for fact in adapter.REPORTS.facts}


def test_every_fact_that_a_rule_needs_is_looked_for() -> None:
    needs = [
        need for rule in load_rules(Config()) for need in rule.needs if not _is_of_others(need)
    ]
    of_the_job = {"WorkerStarted", "WorkerEnded", "WorkerStalled", "WorkerSilent"}
    looked = {fact.__name__ for fact in (*IN_EACH_STEP, *IN_FULL_STEPS)}
    assert {fact.__name__ for fact in facts_of(needs)} <= looked | of_the_job
    assert facts_of(needs, each_step=True) <= set(IN_EACH_STEP)


def test_no_rule_lacks_what_it_needs_in_an_ordinary_run(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    with mothtrap.watch(model, optimizer, runs_dir=str(tmp_path)) as watch:
        for _ in range(STEPS):
            x = torch.randn(16, 4)
            loss = nn.functional.cross_entropy(model(x), (x[:, 0] > 0).long())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            watch.step(loss=loss)
    assert watch.path is not None
    run = mothtrap.open_run(watch.path)
    rules = {status.name: status for status in run.rules}
    of_others = {rule.code for rule in load_rules(Config()) if any(map(_is_of_others, rule.needs))}
    blind = ("was not checked", "mothtrap does not record")
    assert {s.code for s in run.rules if any(each in s.reason for each in blind)} <= of_others
    for name in (
        *("disconnected_parameter", "nonfinite_activation", "parameter_without_optimizer"),
        *("optimizer_without_model", "unused_module", "nonfinite_gradient", "stale_gradient"),
        *("softmax_before_cross_entropy", "step_without_backward", "learning_rate_zero"),
    ):
        assert rules[name].state is RuleState.OK, rules[name]
    (reports,) = run.observations(AdapterReports)
    assert reports.adapter == "torch"
    last = {tag: fact for fact in run.observations(Looked) for tag in fact.facts}
    each, full = last["NonfiniteModule"], last["UnreachedModule"]
    assert (each.first, each.last, each.how_many, each.missed) == (0, STEPS - 1, STEPS, 0)
    assert full.first == 0
    assert full.how_many + full.missed == STEPS
