from __future__ import annotations

import math
from pathlib import Path

import pytest

from mothtrap.checks.check import Check
from mothtrap.core import invariants
from mothtrap.core.config import Config
from mothtrap.core.diagnosis import diagnose
from mothtrap.core.errors import ConfigError, UnknownNameError
from mothtrap.core.findings import Finding, Severity
from mothtrap.core.invariants import Range
from mothtrap.monitor.catalogue import explains, find_rule, load_checks, load_rules, rule_classes
from mothtrap.rules.broken_invariant import BrokenInvariant
from mothtrap.rules.dead_units import DeadUnits


def codes(config: Config) -> list[str]:
    return [rule.code for rule in load_rules(config)]


def test_without_settings_every_rule_is_in_force() -> None:
    rules = [rule.code for rule in rule_classes() if not issubclass(rule, Check)]
    assert codes(Config()) == rules
    assert "NUM001" in codes(Config())


def test_checks_are_in_force_only_where_a_script_is_checked() -> None:
    every = [rule.code for rule in rule_classes()]
    assert [rule.code for rule in load_rules(Config(), checks=True)] == every
    assert "PRE104" in [check.code for check in load_checks(Config())]
    assert "PRE104" not in codes(Config())


def test_select_and_ignore_work_by_family_and_code() -> None:
    numerics = [rule.code for rule in rule_classes() if rule.code.startswith("NUM")]
    assert {"NUM001", "NUM002", "NUM004"} <= set(numerics)
    numerics.remove("NUM002")
    chosen = Config(select=("NUM", "LOS401"), ignore=("NUM002",))
    assert codes(chosen) == ["LOS401", *numerics]


def test_thresholds_come_from_the_configuration() -> None:
    settings = {"ACT201": {"warning-share": 0.8, "min_units": 2, "dead_share": 1}}
    [rule] = load_rules(Config(select=("ACT201",), rules=settings))
    assert rule == DeadUnits(warning_share=0.8, min_units=2, dead_share=1.0)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (Config(rules={"ACT2011": {}}), r"ACT2011.*did you mean 'ACT201'"),
        (
            Config(rules={"ACT201": {"warn_share": 0.1}}),
            r"warn_share.*did you mean 'warning_share'",
        ),
        (Config(rules={"ACT201": {"min_units": 2.5}}), r"min_units = 2.5 is float, expected int"),
        (Config(rules={"ACT201": {"dead_share": "all"}}), r"is str, expected float"),
        (Config(rules={"LOS401": {"num_steps": -3}}), r"num_steps = -3 is not a valid threshold"),
        (Config(rules={"LOS401": {"diff_percent": 0}}), r"expected a finite number above 0"),
        (Config(rules={"LOS401": {"diff_percent": math.inf}}), r"diff_percent = inf"),
        (Config(rules={"LOS401": {"diff_percent": math.nan}}), r"diff_percent = nan"),
        (Config(rules={"ACT201": {"min_units": True}}), r"is bool, expected int"),
        (Config(select=("NUMM",)), r"select contains 'NUMM'.*did you mean"),
        (Config(ignore=("XYZ",)), r"ignore contains 'XYZ'.*families are: ACT"),
    ],
)
def test_a_setting_that_means_nothing_is_an_error(config: Config, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        load_rules(config)


def test_a_rule_is_found_by_code_or_name() -> None:
    assert find_rule("act201") is find_rule("dead_units") is DeadUnits
    with pytest.raises(UnknownNameError, match="did you mean 'dead_units'"):
        find_rule("dead_unit")


def test_explanations_are_by_code_and_lead_to_no_rule_itself() -> None:
    causes = explains()
    assert "NUM001" in causes["NUM004"]
    assert {"LOS401", "LOS407"} <= causes["STR701"]
    assert all(code not in effects for code, effects in causes.items())


def test_explanations_leave_out_rules_that_are_not_there() -> None:
    assert explains([DeadUnits]) == {"ACT201": frozenset()}


def test_within_one_step_what_breaks_is_told_in_the_order_of_computation() -> None:
    broken = [
        Finding(
            code=code, name=code, severity=Severity.ERROR, step=31, detected_step=31, message=""
        )
        for code in ("NUM001", "NUM002", "NUM004")
    ]
    told = {finding.code: finding for finding in diagnose(broken, explains()).findings}
    assert told["NUM004"].caused_by == ()
    assert told["NUM001"].caused_by == ("NUM004",)
    assert set(told["NUM002"].caused_by) == {"NUM001", "NUM004"}


def test_a_file_of_invariants_is_given_to_the_rule_that_judges_them(tmp_path: Path) -> None:
    file = tmp_path / "x.toml"
    file.write_text(invariants.text([Range(of="loss", at_least=0.0)], ["a"]))
    [rule] = load_rules(Config(select=("RUN904",), invariants=str(file)))
    assert rule == BrokenInvariant(invariants=(Range(of="loss", at_least=0.0),))
    assert load_rules(Config(select=("RUN904",))) == (BrokenInvariant(),)
    with pytest.raises(ConfigError, match="gone"):
        load_rules(Config(invariants="gone"))
    with pytest.raises(ConfigError, match=r"RUN904\] has no 'invariants'"):
        load_rules(Config(rules={"RUN904": {"invariants": "x.toml"}}))
