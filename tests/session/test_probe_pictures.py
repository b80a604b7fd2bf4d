"""Pictures of a probed model are kept in its run, and shown by report and page."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from click.testing import CliRunner
from tests.behavior.networks import convolutional, digits, trained

import mothtrap
from mothtrap.cli import main
from mothtrap.core.errors import ConfigError, NotApplicable, UnknownNameError

NAMES = ["residuals", "quantiles", "saliency", "integrated_gradients", "grad_cam", "latent"]


@pytest.fixture(scope="module")
def probed(tmp_path_factory: pytest.TempPathFactory) -> Any:
    X, y = digits()
    torch.manual_seed(0)
    net = trained(convolutional(), X[:1000], y[:1000], 3)
    folder = tmp_path_factory.mktemp("pictures")
    return mothtrap.probe(
        net,
        X[1000:],
        y[1000:],
        select=["BEH207"],
        pictures=[*NAMES, "pruning"],
        budget_s=3600,
        name="seen",
        runs_dir=str(folder / "runs"),
    )


def test_every_picture_is_a_figure_of_the_run(probed: Any) -> None:
    run = mothtrap.open_run(probed.path)
    assert [item.name for item in run.record.items] == [*NAMES, "pruning"]
    assert {item.kind for item in run.record.items} == {"figure"}
    assert run.state == "finished"
    assert not run.damage
    assert run.verdict.startswith("Nothing")
    assert "797 rows" in run.verdict


def test_the_report_draws_them(probed: Any) -> None:
    pytest.importorskip("vl_convert")
    page = CliRunner().invoke(main, ["report", str(probed.path), "--format", "html"]).output
    for name in ("residuals", "grad_cam", "latent"):
        assert f'alt="{name}" src="data:image/svg+xml' in page


def test_a_picture_that_a_model_does_not_have_is_said(tmp_path: Any) -> None:
    X, y = digits()
    X = X.reshape(len(X), -1)
    net = torch.nn.Sequential(torch.nn.Linear(64, 16), torch.nn.ReLU(), torch.nn.Linear(16, 10))
    found = mothtrap.probe(
        trained(net, X[:600], y[:600], 2),
        X[600:900],
        y[600:900],
        select=["BEH207"],
        pictures=["all"],
        budget_s=3600,
        runs_dir=str(tmp_path / "runs"),
    )
    run = mothtrap.open_run(found.path)
    assert [(blind.what, blind.reason) for blind in run.blind] == [
        ("picture grad_cam", "the inputs are not images")
    ]
    assert "latent_tsne" in [item.name for item in run.record.items]


def test_pictures_are_made_on_request(probed: Any) -> None:
    for name in NAMES:
        assert "$schema" in probed.figure(name)
    chart = probed.figure("saliency", rows=[3, 4])
    assert [cell["at"][:5] for cell in chart["data"]["values"][::2]] == ["row 3", "row 4"]
    assert probed.attribution("grad_cam", 3).values.shape == (1, 8, 8)
    with pytest.raises(UnknownNameError, match="row 9999"):
        probed.figure("saliency", rows=[9999])
    with pytest.raises(ConfigError, match="no picture 'gradcam'"):
        probed.figure("gradcam")


def test_unknown_pictures_are_refused_before_anything_is_asked(tmp_path: Any) -> None:
    def never(rows: Any) -> Any:
        raise AssertionError

    X, y = digits()
    with pytest.raises(ConfigError, match="saliency"):
        mothtrap.probe(never, X, y, pictures=["salience"], runs_dir=str(tmp_path / "runs"))


def test_residuals_are_shown_by_column(tmp_path: Any) -> None:
    from tests.behavior.asking import labels, people, sure

    X = people(300)
    found = mothtrap.probe(
        sure, X, labels(X, 0.1), select=["BEH207"], runs_dir=str(tmp_path / "runs")
    )
    dots = found.figure("residuals", "kind")["data"]["values"]
    assert {dot["x"] for dot in dots} == set("abcd")
    assert len(found.figure("residuals", "age")["data"]["values"]) == 300
    line, quantiles = found.figure("quantiles")["layer"]
    assert len(line["data"]["values"]) == 2
    assert len(quantiles["data"]["values"]) == 200
    with pytest.raises(NotApplicable):
        found.figure("latent")
    with pytest.raises(UnknownNameError, match="agee"):
        found.figure("residuals", "agee")
