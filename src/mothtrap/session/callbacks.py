"""Trainer callbacks that watch one training run, without `mothtrap run`.

They are functions because the callback classes can only be defined once the trainer's library
is imported.
"""

from __future__ import annotations

from typing import Any


def LightningCallback(name: str | None = None, **settings: Any) -> Any:  # noqa: N802
    """Return a Lightning callback that watches the training from the first to the last step.

    Add it to the trainer: `Trainer(callbacks=[mothtrap.LightningCallback()])`. In a script that
    `mothtrap run` started, the callback does nothing, since the training is already watched.

    Args:
        name: name of the run; by default the name of the script and the time.
        **settings: keys of the configuration file, e.g. `capture="everything"`.

    Raises:
        ModuleNotFoundError: Lightning is not installed.
    """
    from mothtrap.session.lightning_callback import WatchingCallback

    return WatchingCallback(name, **settings)


def RayCallback(name: str | None = None, **settings: Any) -> Any:  # noqa: N802
    """Return a Ray Train callback that observes all workers of a trainer as one run.

    Add it to the trainer: `RunConfig(callbacks=[mothtrap.RayCallback()])`. The training function
    does not change. The controller of Ray Train creates the run, compares the workers, and prints
    the verdict. If Ray Train restarts the workers, they write to the next attempt of the run.

    Args:
        name: name of the run; by default the name of the script and the time.
        **settings: keys of the configuration file. `runs_dir` must be a folder that all machines
            of the cluster share.

    Raises:
        ModuleNotFoundError: Ray Train is not installed, or is older than its version 2.
        ConfigError: a setting is unknown or invalid, or the name cannot be used for a folder.
    """
    from mothtrap.session.ray_callback import WatchingCallback

    return WatchingCallback(name, **settings)


def TrainerCallback(name: str | None = None, **settings: Any) -> Any:  # noqa: N802
    """Return a Hugging Face Trainer callback that watches the training from start to end.

    Add it to the trainer: `Trainer(..., callbacks=[mothtrap.TrainerCallback()])`. In a script that
    `mothtrap run` started, the callback does nothing, since the training is already watched.

    Args:
        name: name of the run; by default the name of the script and the time.
        **settings: keys of the configuration file, e.g. `capture="everything"`.

    Raises:
        ModuleNotFoundError: Transformers is not installed.
    """
    from mothtrap.session.transformers_callback import WatchingCallback

    return WatchingCallback(name, **settings)
