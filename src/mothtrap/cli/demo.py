"""Train a small model with a common mistake, then without it."""

from __future__ import annotations

import importlib.util
import os
import sys
from importlib.resources import files
from pathlib import Path

import click

from mothtrap.cli._group import Refusal

NEEDED = {
    "torch": {"torch": "torch", "sklearn": "scikit-learn"},
    "jax": {"jax": "jax", "optax": "optax", "sklearn": "scikit-learn"},
    "lightning": {"torch": "torch", "lightning": "lightning", "sklearn": "scikit-learn"},
    "keras": {"keras": "keras", "tensorflow": "tensorflow", "sklearn": "scikit-learn"},
    "xgboost": {"xgboost": "xgboost"},
}
"""Modules and the packages that have them, by framework."""
SCRIPTS = {
    "torch": "digits.py",
    "jax": "digits_jax.py",
    "lightning": "digits_lightning.py",
    "keras": "digits_keras.py",
    "xgboost": "churn_xgboost.py",
}
TASKS = {"xgboost": "trees that predict which customers leave"}
DIGITS = "a network for handwritten digits"


@click.command(name="demo")
@click.option("--runs-dir", metavar="DIR", help="Folder for the two runs [default: ./runs].")
@click.option(
    "--framework",
    type=click.Choice(sorted(NEEDED)),
    default="torch",
    show_default=True,
    help="Framework of the model.",
)
@click.pass_context
def command(ctx: click.Context, runs_dir: str | None, framework: str) -> None:
    """Train a small model with a common mistake, then without it.

    A network classifies handwritten digits (needs scikit-learn, and torch, torch with Lightning,
    JAX with optax, or Keras with TensorFlow), or trees predict which customers leave (needs
    xgboost). Needs no network access, and takes less than a minute.
    """
    from mothtrap.core.config import load_config
    from mothtrap.session.launch import launch
    from mothtrap.session.uploading import folder_for

    missing = [package for module, package in NEEDED[framework].items() if not _installed(module)]
    if missing:
        names = " ".join(missing)
        raise Refusal(
            f"the demo needs {' and '.join(missing)}, which this Python ({sys.executable}) does "
            f"not have; install with: {sys.executable} -m pip install {names}"
        )
    overrides = {"runs_dir": runs_dir}
    config, warnings = load_config(start=Path.cwd(), environ=os.environ, overrides=overrides)
    script = _copy_of_program(folder_for(config.runs_dir), SCRIPTS[framework])
    _say(f"1 of 2: {TASKS.get(framework, DIGITS)}, with a mistake", script)
    code = launch([sys.executable, script], config=config, name=None, warnings=warnings)
    if code:
        ctx.exit(code)
    _say("2 of 2: the same program without the mistake", f"{script} --fixed")
    ctx.exit(launch([sys.executable, script, "--fixed"], config=config, name=None))


def _copy_of_program(runs_dir: Path, name: str) -> str:
    """Copy the program to the folder of the runs, and return its path.

    Findings never name files of mothtrap itself, so the program must not run from inside the
    package.
    """
    folder = runs_dir / "demo-program"
    script = folder / name
    try:
        folder.mkdir(parents=True, exist_ok=True)
        script.write_bytes(files("mothtrap").joinpath("examples", name).read_bytes())
    except OSError as err:
        raise Refusal(
            f"cannot write the demo's program to {script} ({err.strerror}); choose a writable "
            "folder with --runs-dir"
        ) from err
    return str(script)


def _installed(module: str) -> bool:
    return importlib.util.find_spec(module) is not None


def _say(title: str, script: str) -> None:
    click.echo(f"\n{title}\n$ mothtrap run {script}\n", err=True)
