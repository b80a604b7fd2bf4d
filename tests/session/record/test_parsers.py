"""Parameters from OmegaConf alone, absl and click, one after another."""

from __future__ import annotations

import sys
import types

import click
import pytest

from mothtrap.session.record import parsed, settings


@pytest.fixture(autouse=True)
def _no_script(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parsed, "_parsed", {})
    monkeypatch.setattr(parsed, "_installed", set())
    monkeypatch.setattr(parsed, "_taken", [])
    monkeypatch.setitem(sys.modules, "__main__", types.ModuleType("__main__"))


def test_of_omegaconf_the_merged_settings_count(monkeypatch: pytest.MonkeyPatch) -> None:
    omegaconf = pytest.importorskip("omegaconf")
    kind = omegaconf.omegaconf.OmegaConf
    for name in parsed.MADE_BY:  # `install` replaces them; they are restored after the test
        monkeypatch.setattr(kind, name, staticmethod(getattr(kind, name)))
    parsed.install("omegaconf.omegaconf")
    defaults = kind.create({"optim": {"lr": 0.1, "name": "sgd"}, "again": "${optim.lr}"})
    kind.merge(defaults, kind.from_cli(["optim.lr=0.5"]))
    kind.create({"other": 1})
    found = settings.settle(settings.seen_now())
    assert found.values == {"optim.lr": 0.5, "optim.name": "sgd", "again": 0.5}
    assert found.source == "OmegaConf"


def test_flags_of_absl_that_the_script_defines(monkeypatch: pytest.MonkeyPatch) -> None:
    flags = pytest.importorskip("absl.flags")
    values = flags.FlagValues()
    flags.DEFINE_float("lr", 0.1, "", flag_values=values, module_name="__main__")
    flags.DEFINE_integer("steps", 5, "", flag_values=values, module_name="__main__")
    monkeypatch.setattr(flags, "FLAGS", values)
    monkeypatch.setattr(sys, "argv", ["train.py", "--lr=0.5"])
    values(["train.py", "--lr=0.5"])
    found = settings.settle(settings.seen_now())
    assert found.values.items() >= {"lr": 0.5, "steps": 5}.items()
    assert "absl" in found.source


def test_options_of_the_command_that_click_runs() -> None:
    seen: list[settings.Settings] = []

    @click.command()
    @click.option("--lr", type=float, default=0.1)
    @click.option("--password", default="hunter2")
    def train(lr: float, password: str) -> None:
        seen.append(settings.settle(settings.seen_now()))

    train.main(["--lr", "0.5"], standalone_mode=False)
    assert seen[0].values["lr"] == 0.5
    assert seen[0].source == "click"
