"""Each planted in a real small training is named as the root, at its step, layer and line.

The stored run is evaluated again, with the same result.

By default seed 0, the programs of `chosen` and those that were changed, and repaired twins where
the rule says `error` and dates it by the history of a value. `HARNESS_SEEDS=0,1,2` takes more
seeds, `HARNESS=full` all.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from tests.faulty.chosen import changed, changed_paths, chosen, reads
from tests.faulty.expected import PLANTED, Planted
from tests.harness.running import FULL, PYTHON, environment, observed, run, show

from mothtrap.checks.catalogue import checks as every_check
from mothtrap.core.config import load_config
from mothtrap.core.findings import Finding
from mothtrap.core.quiet import Quiet
from mothtrap.monitor.afterwards import judge_again
from mothtrap.monitor.catalogue import load_rules, rule_classes
from mothtrap.reader.run import open_run

FOLDER = Path(__file__).parent
MARK = "# <- here"


def _by_history(planted: Planted) -> bool:
    """Return whether the rule says `error` by a threshold, which healthy training may come near.

    A relation that fires on healthy training does so on the twins of other programs, too.
    """
    return planted.severity == "error" and planted.first_step < planted.last_step


SEEDS = [int(seed) for seed in os.environ.get("HARNESS_SEEDS", "0").split(",")]
CASES = [
    pytest.param(planted, seed, id=f"{planted.name}-{seed}")
    for planted in PLANTED
    for seed in SEEDS
]
TWINS = [case for case in CASES if FULL or _by_history(case.values[0])]  # type: ignore[arg-type]
RULES = {rule.name(): rule for rule in rule_classes()}
READ = {planted.name: reads(RULES[planted.name]) for planted in PLANTED}
CHOSEN = chosen(READ)
RUN = {*CHOSEN, *changed(READ, changed_paths())}
FAULTY = [case for case in CASES if FULL or case.values[0].name in RUN]  # type: ignore[union-attr]


def record_of(planted: Planted, seed: int, folder: Path, *options: str) -> dict:
    """Run a faulty program, or its twin, and return the output of `show`."""
    script = FOLDER / f"{planted.name}.py"
    settings = script.with_suffix(".toml")  # of rules that judge what users name
    if settings.exists():
        shutil.copy(settings, folder / "mothtrap.toml")
    target = ["--", *PYTHON, script, "--seed", str(seed), *options]
    words = observed(target, runs_dir=folder, name="seen")
    # On a loaded machine these short steps would be over the budget, and thinned.
    outcome = run(words, cwd=folder, env=environment(MOTHTRAP_OVERHEAD="0"))
    assert outcome.returncode == 0, outcome.stderr
    record = show(folder / "seen", cwd=folder)
    assert record.get("tool_errors", []) == [], "a part of mothtrap failed"
    return record


def judged_again(planted: Planted, folder: Path) -> tuple[Finding, ...]:
    """Return the rule's findings in the stored run, from exactly what the rule needs."""
    config, _ = load_config(start=folder, environ={}, overrides={"select": (planted.code,)})
    return judge_again(open_run(folder / "seen"), load_rules(config), Quiet.of(config)).findings


def marked_lines(script: Path) -> list[str]:
    """Return `file:line` of every marked line; only the file if no line is marked."""
    text = script.read_text(encoding="utf-8").splitlines()
    marked = [f"{script.name}:{n}" for n, line in enumerate(text, start=1) if line.endswith(MARK)]
    return marked or [f"{script.name}:"]


def told(record: dict) -> str:
    """Return the findings of a record, one per line, for a failing test."""
    return "\n".join(
        f"{f['severity']} {f['code']} {f['name']} step {f['step']} {f['layers']} "
        f"{f['location']} caused by {f['caused_by']}: {f['message']}"
        for f in record["findings"]
    )


def test_every_rule_has_a_faulty_program() -> None:
    # Those that compare workers have theirs in tests/adapters/torch/test_distributed_jobs.py,
    # those that wait in tests/session/test_stalled.py, those of several runs in
    # test_reference.py and test_invariants.py there.
    alone = {rule.name() for rule in rule_classes() if not (rule.compares or rule.waits)}
    alone -= {"differs_across_runs", "broken_invariant"}
    alone -= {"waits_for_data", "slowing_down"}  # fire on an idle machine only; see tests/rules
    # Reads the source, which a program shares with its twin; see tests/adapters/torch/losses.
    alone -= {"episode_ends_ignored"}
    # Of trainers and scikit-learn; see tests/adapters/accelerate, lightning, transformers, sklearn.
    alone -= {"accumulation_without_effect", "labels_overwritten"}
    alone -= {"loss_not_returned", "optimizer_never_steps", "training_cut_short"}
    alone -= {"interpolated_rows", "preprocessing_refitted"}
    # These need two attempts; see test_saved_weights.py.
    alone -= {"optimizer_not_restored", "weights_not_restored"}
    alone -= {"loss_jump_on_resume"}  # needs two attempts; see tests/session/test_elastic.py
    alone -= {"updates_all_skipped"}  # beside its cause; see tests/session/test_left_out.py
    # Frameworks in environments of their own: bench/faultbench/keras and jax.
    alone -= {"eager_training", "loss_mismatch", "loss_scaling_forgotten", "retracing"}
    alone -= {"missing_activation", "probabilities_as_logits"}
    alone -= {"metric_contradicts_loss", "metric_watched_backwards", "loss_swamped"}
    alone -= {"averaged_weights_lag", "loss_arguments_swapped", "shuffled_apart"}
    alone -= {"opponent_trained", "opponents_agree", "trainable_ignored", "states_of_other_rows"}
    alone -= {"update_dropped", "key_reused", "callback_in_step", "value_read_once"}
    alone -= {check.name() for check in every_check()}  # tests/checks
    assert {planted.name for planted in PLANTED} == alone


def test_all_that_rules_read_is_read_in_the_chosen_programs() -> None:
    everything = set().union(*READ.values())
    assert everything - set().union(*(READ[name] for name in CHOSEN)) == set()


def test_a_program_that_adds_nothing_is_not_chosen() -> None:
    assert chosen({"a": {"loss"}, "b": {"loss", "Stall"}, "c": {"Stall"}}) == ["b"]


def test_a_program_runs_where_it_or_its_rule_was_changed() -> None:
    paths = ["src/mothtrap/rules/a.py", "tests/rules/test_b.py", "tests/faulty/c.py", "docs/d.py"]
    assert changed(["a", "b", "c", "d"], paths) == ["a", "c"]


@pytest.mark.parametrize(("planted", "seed"), FAULTY)
def test_the_fault_is_the_root_of_the_diagnosis(
    planted: Planted, seed: int, tmp_path: Path
) -> None:
    record = record_of(planted, seed, tmp_path)
    roots = {story["root"] for story in record["diagnosis"][:1]}
    root = next((f for f in record["findings"] if f["fingerprint"] in roots), None)
    assert root is not None, record["verdict"]
    assert (root["name"], root["code"]) == (planted.name, planted.code), told(record)
    assert root["caused_by"] == []
    assert root["severity"] == planted.severity, told(record)
    assert planted.first_step <= root["step"] <= planted.last_step, told(record)
    assert root["detected_step"] >= root["step"]
    layers = [layer for layer in root["layers"] if f"{layer}.".startswith(f"{planted.layer}.")]
    assert layers or not planted.layer, told(record)
    [again] = [f for f in judged_again(planted, tmp_path) if f.mode == root["mode"]]
    assert again.severity == root["severity"]
    assert set(again.layers) & set(root["layers"]) or not root["layers"]
    assert planted.first_step <= again.step <= planted.last_step
    location = root["location"] or ""
    assert any(line in location for line in marked_lines(FOLDER / f"{planted.name}.py")), told(
        record
    )


@pytest.mark.parametrize(("planted", "seed"), TWINS)
def test_the_repaired_twin_has_no_error(planted: Planted, seed: int, tmp_path: Path) -> None:
    record = record_of(planted, seed, tmp_path, "--healthy")
    errors = [f for f in record["findings"] if f["severity"] == "error"]
    assert errors == [], told(record)
    assert planted.code not in {f["code"] for f in record["findings"]}, told(record)
    state = {rule["code"]: rule["state"] for rule in record["rules"]}[planted.code]
    assert state in {"ok", "not_applicable", "not_enough_data"}
