"""Settings come from a file, the environment and the command line, in that order."""

import json
from pathlib import Path

import pytest

from mothtrap.core.collections import Collection
from mothtrap.core.config import (
    Config,
    environment,
    find_file,
    inherited_config,
    is_disabled,
    load_config,
    located,
    origins,
    plain,
    schema,
)
from mothtrap.core.errors import ConfigError
from mothtrap.core.invariants import SHIPPED


def test_without_a_file_the_defaults_hold(tmp_path: Path) -> None:
    assert load_config(start=tmp_path, environ={}) == (Config(), ())


def test_the_nearest_file_upward_is_read_and_a_mothtrap_toml_wins_in_one_folder(
    tmp_path: Path,
) -> None:
    inner = tmp_path / "a" / "b"
    inner.mkdir(parents=True)
    (tmp_path / "pyproject.toml").write_text("[tool.mothtrap]\noverhead = 0.5\n")
    assert find_file(inner) == tmp_path / "pyproject.toml"
    (tmp_path / "mothtrap.toml").write_text("overhead = 0.25\n")
    assert load_config(start=inner, environ={})[0].overhead == 0.25


def test_a_pyproject_without_the_table_is_passed_over(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("[project]\nname = 'x'\n")
    assert find_file(tmp_path) != tmp_path / "pyproject.toml"


def test_the_environment_beats_the_file_and_the_command_line_beats_both(tmp_path: Path) -> None:
    (tmp_path / "mothtrap.toml").write_text('overhead = 0.1\nruns_dir = "x"\ncapture = "off"\n')
    environ = {"MOTHTRAP_OVERHEAD": "0.2", "MOTHTRAP_RUNS_DIR": "y"}
    overrides = {"overhead": 0.3, "runs_dir": None}
    config, _ = load_config(start=tmp_path, environ=environ, overrides=overrides)
    assert (config.overhead, config.runs_dir, config.capture) == (0.3, "y", "off")


def test_lists_in_the_environment_are_separated_by_commas(tmp_path: Path) -> None:
    config, _ = load_config(start=tmp_path, environ={"MOTHTRAP_SELECT": "NUM,GRD101"})
    assert config.select == ("NUM", "GRD101")


def test_keys_may_be_written_with_hyphens(tmp_path: Path) -> None:
    (tmp_path / "mothtrap.toml").write_text('runs-dir = "x"\n')
    assert load_config(start=tmp_path, environ={})[0].runs_dir == "x"


def test_an_unknown_key_names_the_nearest_and_the_file(tmp_path: Path) -> None:
    (tmp_path / "mothtrap.toml").write_text("overhed = 0.1\n")
    with pytest.raises(ConfigError, match=r"mothtrap\.toml: unknown key 'overhed' .*'overhead'"):
        load_config(start=tmp_path, environ={})


def test_an_unknown_variable_is_only_a_warning(tmp_path: Path) -> None:
    _, warnings = load_config(start=tmp_path, environ={"MOTHTRAP_CAPTUR": "off"})
    assert len(warnings) == 1
    assert "MOTHTRAP_CAPTURE" in warnings[0]


def test_everything_is_off_unless_the_variable_says_0() -> None:
    off = {value: is_disabled({"MOTHTRAP_DISABLE": value}) for value in ("1", "yes", "0", "")}
    assert off == {"1": True, "yes": True, "0": False, "": False}
    assert not is_disabled({})


@pytest.mark.parametrize("name", ["MOTHTRAP_DISABLE", "MOTHTRAP_RUN_DIR", "MOTHTRAP_FRAMEWORKS"])
def test_variables_that_are_no_settings_are_no_mistake(tmp_path: Path, name: str) -> None:
    assert load_config(start=tmp_path, environ={name: "1"})[1] == ()


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ('capture = "al"', "toml: capture cannot be 'al'"),
        ('overhead = "much"', "toml: overhead must be a number such as 0.02, not 'much'"),
        ("overhead = -1", "overhead cannot be -1: .* at least 0"),
        ("overhead = 1", r"share of the training time \(0.02 is 2 %\)"),
        ("overhead = 2", "overhead cannot be 2: "),
        ("overhead = nan", "overhead cannot be nan: "),
        ("queue_mb = 0", "queue_mb must be more than 0"),
        ("max_run_mb = -1", r"max_run_mb must be 0 \(no limit\) or more and finite, not -1"),
        ("max_run_mb = nan", "max_run_mb must be 0"),
        ("max_gradient_norm = -1", r"max_gradient_norm must be 0 \(no limit\) or more, not -1"),
        ("max_gradient_norm = inf", "max_gradient_norm must be 0"),
        ('on_nonfinite = "ignore"', "on_nonfinite"),
        ('on_nonfinite = "skip"\nworkers = "rank0"', "all workers must agree on a step"),
        ("snapshots = -1", "snapshots must be 0 or more"),
        ("snapshot_mb = inf", "snapshot_mb must be 0 or more and finite"),
        ("snapshot_every = -5", "snapshot_every must be 0 or more"),
        ("snapshot_at = [3, -1]", "snapshot_at needs steps, which are counted from 0, not -1"),
        ("queue_mb = inf", "queue_mb must be more than 0 and finite"),
        ("[collections.a]\ntensors = ['x']\nevery = 0", "collections.a.every must be 1 step"),
        ("[tool]\nmothtrap = 3", "must be a table, not 3"),
        ("[tool.other]\nx = 1", "unknown key 'tool'"),
        ("overhead = = 1", "cannot be read as TOML"),
        ("[collections.a]\nevery = 1", "collections.a.tensors is missing"),
        ("[collections.a]\ntensors = ['x']\nevry = 1", "evry"),
    ],
)
def test_a_bad_value_says_where_and_what(tmp_path: Path, text: str, complaint: str) -> None:
    (tmp_path / "mothtrap.toml").write_text(text + "\n")
    with pytest.raises(ConfigError, match=complaint):
        load_config(start=tmp_path, environ={})


def test_a_bad_variable_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"^MOTHTRAP_OVERHEAD: overhead must be a number"):
        load_config(start=tmp_path, environ={"MOTHTRAP_OVERHEAD": "2%"})


def test_an_override_is_not_blamed_on_the_file(tmp_path: Path) -> None:
    (tmp_path / "mothtrap.toml").write_text("overhead = 0.1\n")
    with pytest.raises(ConfigError, match=r"^overhead cannot be 2: "):
        load_config(start=tmp_path, environ={}, overrides={"overhead": 2})


def test_a_mothtrap_toml_may_have_its_keys_in_the_table_of_a_pyproject(tmp_path: Path) -> None:
    text = 'capture = "off"\n[tool.mothtrap]\nruns-dir = "x"\n[tool.mothtrap.rules.GRD101]\na = 1\n'
    (tmp_path / "mothtrap.toml").write_text(text)
    config, _ = load_config(start=tmp_path, environ={})
    assert config == Config(capture="off", runs_dir="x", rules={"GRD101": {"a": 1}})


def test_a_key_at_both_places_of_a_mothtrap_toml_is_refused(tmp_path: Path) -> None:
    text = "overhead = 0.1\n[tool.mothtrap]\noverhead = 0.2\n"
    (tmp_path / "mothtrap.toml").write_text(text)
    with pytest.raises(ConfigError, match="overhead is set both at the top level and in"):
        load_config(start=tmp_path, environ={})


def test_a_pyproject_whose_tool_is_no_table_is_passed_over(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("tool = 3\n")
    assert find_file(tmp_path) != tmp_path / "pyproject.toml"


def test_rules_are_selected_and_ignored_by_prefix() -> None:
    config = Config(select=("NUM", "GRD101"), ignore=("NUM004",))
    assert [config.selects(c) for c in ("NUM001", "NUM004", "GRD101", "GRD105")] == [
        True,
        False,
        True,
        False,
    ]


def test_collections_of_all_sources_are_joined_by_name(tmp_path: Path) -> None:
    (tmp_path / "mothtrap.toml").write_text(
        "[collections.gradients]\nevery = 9\n[collections.weights]\nevery = 9\n"
    )
    environ = {"MOTHTRAP_COLLECTIONS": '{"weights": {"every": 5}, "biases": {}}'}
    overrides = {"collections": {"biases": Collection(raw=True)}}
    config, warnings = load_config(start=tmp_path, environ=environ, overrides=overrides)
    assert warnings == ()
    assert {name: c.every for name, c in config.collections.items()} == {
        "gradients": 9,
        "weights": 5,
        "biases": None,
    }
    assert config.collections["biases"].raw


@pytest.mark.parametrize(
    "text",
    [
        '{"heads": {"tensors": ["gradients:head.*"], "raw": true}}',
        'heads = {tensors = ["gradients:head.*"], raw = true}',
        '{heads = {tensors = ["gradients:head.*"], raw = true}}',
    ],
)
def test_collections_in_the_environment_are_json_or_toml(tmp_path: Path, text: str) -> None:
    config, _ = load_config(start=tmp_path, environ={"MOTHTRAP_COLLECTIONS": text})
    assert config.collections == {"heads": Collection(tensors=("gradients:head.*",), raw=True)}


def test_collections_in_the_environment_that_are_neither_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"^MOTHTRAP_COLLECTIONS: .* neither JSON nor TOML"):
        load_config(start=tmp_path, environ={"MOTHTRAP_COLLECTIONS": "gradients:*"})


def test_every_setting_knows_where_it_comes_from(tmp_path: Path) -> None:
    (tmp_path / "mothtrap.toml").write_text("overhead = 0.1\n[collections.gradients]\nevery = 9\n")
    environ = {"MOTHTRAP_OVERHEAD": "0.2", "MOTHTRAP_COLLECTIONS": '{"weights": {}}'}
    assert origins(start=tmp_path, environ=environ) == {
        "overhead": "MOTHTRAP_OVERHEAD",
        "collections.gradients": str(tmp_path / "mothtrap.toml"),
        "collections.weights": "MOTHTRAP_COLLECTIONS",
    }


def test_the_schema_knows_every_setting_and_what_a_collection_may_hold() -> None:
    found = schema()
    definitions = found["$defs"]
    assert isinstance(definitions, dict)
    assert set(definitions["Config"]["properties"]) == set(Config.__struct_fields__)
    assert set(definitions["Collection"]["properties"]) == set(Collection.__struct_fields__)
    json.dumps(found)


def test_a_function_becomes_its_name_where_it_cannot_go() -> None:
    config = Config(collections={"weights": Collection(reductions={"p99": sorted})})
    assert json.loads(json.dumps(plain(config)))["collections"]["weights"]["reductions"] == {
        "p99": "sorted"
    }
    assert inherited_config(environment(config)) is not None


def test_a_child_gets_the_very_same_configuration() -> None:
    config = Config(select=("NUM",), overhead=0.0, rules={"GRD101": {"ratio": 50.0}})
    assert inherited_config(environment(config)) == config
    assert inherited_config({}) is None


def test_an_error_about_rules_names_where_they_were_set(tmp_path: Path) -> None:
    file = tmp_path / "mothtrap.toml"
    file.write_text("select = ['NUM']\n[rules.LOS401]\nnum_steps = -3\n")

    def told(text: str) -> str:
        return str(located(ConfigError(text), start=tmp_path, environ={}))

    assert told("configuration: [rules.LOS401] num_steps") == f"{file}: [rules.LOS401] num_steps"
    assert told("configuration: select contains 'X'") == f"{file}: select contains 'X'"
    assert told("configuration: ignore contains 'X'") == "configuration: ignore contains 'X'"


def test_a_file_of_invariants_is_seen_from_the_file_that_names_it(tmp_path: Path) -> None:
    (tmp_path / "mothtrap.toml").write_text('invariants = "mine.toml"')
    deeper = tmp_path / "deeper"
    deeper.mkdir()

    def invariants(**overrides: str) -> str:
        return load_config(start=deeper, environ={}, overrides=overrides)[0].invariants

    assert invariants() == str(tmp_path / "mine.toml")
    assert invariants(invariants="other.toml") == str(deeper / "other.toml")
    assert invariants(invariants="pytorch") == str(SHIPPED / "pytorch.toml")
