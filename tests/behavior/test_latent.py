"""Projections of features, of a model and over the steps of a run."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from tests.behavior.networks import convolutional, digits, subject_of, trained

import mothtrap
from mothtrap.behavior.latent import latent_chart, latent_space
from mothtrap.behavior.sklearn.projection import principal, project
from mothtrap.core.errors import ConfigError, NotEnoughData, UnknownNameError

RNG = np.random.default_rng(0)


def spread(place_R2: np.ndarray, label_R: np.ndarray) -> float:
    """Distance of the centers of two classes in units of their spread."""
    first, second = place_R2[label_R == 0], place_R2[label_R == 1]
    within = (first.std(axis=0).mean() + second.std(axis=0).mean()) / 2
    return float(np.linalg.norm(first.mean(axis=0) - second.mean(axis=0)) / within)


@pytest.mark.parametrize("method", ["pca", "tsne"])
def test_groups_stay_apart_on_the_plane(method: str) -> None:
    label_R = np.arange(80) % 2
    value_RF = RNG.normal(size=(80, 60)) + 6 * label_R[:, None]
    place_R2 = project(value_RF, method)  # type: ignore[arg-type]
    assert place_R2.shape == (80, 2)
    assert spread(place_R2, label_R) > 2
    assert np.array_equal(place_R2, project(value_RF, method))  # type: ignore[arg-type]


def test_principal_components_keep_distances_and_missing_ones_are_zero() -> None:
    flat = RNG.normal(size=(30, 1)) @ RNG.normal(size=(1, 5))
    place_R2 = principal(flat, 2)
    assert np.abs(place_R2[:, 1]).max() < 1e-9
    assert principal(RNG.normal(size=(30, 1)), 2)[:, 1].tolist() == [0.0] * 30


def test_too_few_rows_and_unknown_methods_are_refused() -> None:
    with pytest.raises(NotEnoughData, match="10 rows"):
        project(RNG.normal(size=(5, 3)), "pca")
    with pytest.raises(ConfigError, match="pca or tsne"):
        project(RNG.normal(size=(50, 3)), "umap")  # type: ignore[arg-type]


def test_the_features_of_a_model_are_colored_by_class() -> None:
    X, y = digits()
    torch.manual_seed(0)
    subject = subject_of(trained(convolutional(), X[:600], y[:600], 2), X[600:900], y[600:900])
    dots = latent_chart(subject)["data"]["values"]
    assert len(dots) == 300
    assert {dot["class"] for dot in dots} == set("0123456789")
    assert {dot["prediction"] for dot in dots} <= {"right", "wrong"}


def watched(folder: Path) -> None:
    """Train, and evaluate the same 40 rows after every tenth step."""
    torch.manual_seed(0)
    X = torch.randn(200, 4)
    y = (X[:, 0] + X[:, 1] > 0).long()
    net = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))
    optimizer = torch.optim.Adam(net.parameters(), 0.05)
    layers = {"tensors": ["activations:1", "labels"], "modes": ["eval"], "raw": True}
    with mothtrap.watch(
        net, optimizer, name="run", runs_dir=str(folder), collections={"layer": layers}
    ) as dbg:
        for step in range(30):
            net.train()
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(net(X), y)
            loss.backward()
            optimizer.step()
            dbg.step(loss=loss)
            if step % 10 == 9:
                net.eval()
                with torch.no_grad():
                    net(X[:40])


def test_the_activations_of_a_run_are_shown_step_by_step(tmp_path: Path) -> None:
    watched(tmp_path)
    run = mothtrap.open_run(tmp_path / "run")
    label_R = np.arange(40) % 2
    for method in ("pca", "tsne"):
        chart = latent_space(run, "activation:1", label_R, method=method)  # type: ignore[arg-type]
        dots = chart["data"]["values"]
        steps = sorted({dot["step"] for dot in dots})
        assert len(steps) == 3
        assert len(dots) == 3 * 40
        assert {dot["class"] for dot in dots} == {"0", "1"}
    with pytest.raises(ConfigError, match="41 labels for 40 rows"):
        latent_space(run, "activation:1", np.zeros(41))
    with pytest.raises(UnknownNameError, match="in the mode 'train'"):
        latent_space(run, "activation:1", mode="train")
