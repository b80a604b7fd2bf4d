"""Batches that cannot be learned."""

from __future__ import annotations

import torch
from tests.checks.checked import finding, network, passes, result, table
from torch import nn
from torch.nn import functional

LOSS = nn.CrossEntropyLoss()


def test_a_softmax_too_many_is_named_by_the_loss_where_it_ends() -> None:
    model = nn.Sequential(network(), nn.Softmax(1))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    found = finding("PRE104", model, table(), LOSS, optimizer=optimizer)
    assert found.severity == "error"
    assert "softmax before cross_entropy" in found.message


def test_a_learning_rate_that_is_far_too_low_is_named() -> None:
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-7)
    found = finding("PRE104", model, table(), LOSS, optimizer=optimizer)
    assert found.severity == "warning"
    assert "Adam" in found.message


def test_a_model_that_is_too_small_is_a_warning() -> None:
    torch.manual_seed(0)
    x = torch.randn(64, 1)
    y = torch.randint(2, (64,))
    model = nn.Linear(1, 2)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.5)
    found = finding("PRE104", model, [(x, y)], LOSS, optimizer=optimizer)
    assert found.severity == "info"
    assert "too small" in found.message


def test_a_network_that_learns_is_no_fault() -> None:
    model = network()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    assert passes("PRE104", model, table(), LOSS, optimizer=optimizer)


def test_a_loss_that_falls_slowly_is_not_called_learned() -> None:
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=2e-4)
    made = result("PRE104", model, table(), LOSS, optimizer=optimizer)
    assert made.state == "not_enough_data"
    assert "falls too slowly" in made.reason


def test_the_floor_of_label_smoothing_is_no_fault() -> None:
    model = network()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    loss = nn.CrossEntropyLoss(label_smoothing=0.3)
    assert passes("PRE104", model, table(), loss, optimizer=optimizer)


def test_a_negative_loss_is_not_judged() -> None:
    model = network()
    made = result("PRE104", model, table(), step=lambda batch: -model(batch[0]).square().mean())
    assert made.state == "not_applicable"


def test_everything_is_as_before_after_the_trials() -> None:
    model = network()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    functional.cross_entropy(model(table()[0][0]), table()[0][1]).backward()
    optimizer.step()
    weights = [p.clone() for p in model.parameters()]
    moments = [s["exp_avg"].clone() for s in optimizer.state.values()]
    torch.manual_seed(5)
    drawn = torch.get_rng_state()
    batches = table()
    torch.set_rng_state(drawn)
    model.eval()
    result("PRE104", model, batches, LOSS, optimizer=optimizer)
    assert all(map(torch.equal, weights, model.parameters()))
    assert all(map(torch.equal, moments, (s["exp_avg"] for s in optimizer.state.values())))
    assert torch.equal(drawn, torch.get_rng_state())
    assert not model.training


def test_a_loss_that_compares_the_rows_of_a_batch_is_not_judged() -> None:
    torch.manual_seed(0)
    model = network(classes=8)

    def step(batch: tuple[torch.Tensor, ...]) -> torch.Tensor:
        rows = functional.normalize(model(batch[0]), dim=1)
        return functional.cross_entropy(2.0 * rows @ rows.T, torch.arange(len(rows)))

    optimizer = torch.optim.Adam(model.parameters(), 0.02)
    made = result("PRE104", model, table(), step=step, optimizer=optimizer)
    assert made.state == "not_applicable"


def test_data_that_no_trial_can_replace_are_not_judged() -> None:
    weight = torch.nn.Linear(1, 1, bias=False)
    tokens = torch.tensor([0, 0, 1, 1])
    following = torch.tensor([0, 1, 0, 1])  # no model of one token can know it

    def step(_batch: tuple[torch.Tensor, ...]) -> torch.Tensor:
        scores = weight.weight.reshape(1) * tokens.float()
        shares = torch.stack([scores, -scores], 1).softmax(1)
        return -shares[torch.arange(4), following].log().mean()

    optimizer = torch.optim.SGD(weight.parameters(), lr=1.0)
    made = result("PRE104", weight, table(), step=step, optimizer=optimizer)
    assert made.state == "not_enough_data"
    assert "cannot be replaced" in made.reason


def test_a_bigram_model_cannot_memorize_by_design() -> None:
    torch.manual_seed(0)
    tokens = torch.randint(5, (16, 33))
    model = nn.Embedding(5, 5)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.5)

    def step(batch: tuple[torch.Tensor, ...]) -> torch.Tensor:
        scores = model(batch[0])
        return functional.cross_entropy(scores.reshape(-1, 5), batch[1].reshape(-1))

    batch = (tokens[:, :-1], tokens[:, 1:])
    made = result("PRE104", model, [batch], step=step, optimizer=optimizer)
    assert not made.found


def test_scores_that_the_model_limits_are_a_note() -> None:
    model = network()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)

    def step(batch: tuple[torch.Tensor, ...]) -> torch.Tensor:
        limited = 0.5 * functional.normalize(model(batch[0]), dim=1)
        return functional.cross_entropy(limited, batch[1])

    found = finding("PRE104", model, table(), step=step, optimizer=optimizer)
    assert found.severity == "info"
    assert "every prediction is right" in found.message


def test_a_schedule_that_decays_within_a_few_steps_is_named() -> None:
    model = network()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)
    taken = iter(range(10**9))

    def step(batch: tuple[torch.Tensor, ...]) -> torch.Tensor:
        if next(taken) > 5:
            schedule.step()
        return functional.cross_entropy(model(batch[0]), batch[1])

    found = finding("PRE104", model, table(), step=step, optimizer=optimizer)
    assert "constant learning rate" in found.message
    assert "schedule" in found.fixes[0]


def test_a_loss_that_becomes_nan_on_one_batch_is_named() -> None:
    model = network(classes=2)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.5)

    def step(batch: tuple[torch.Tensor, ...]) -> torch.Tensor:
        share = (20 * model(batch[0])).softmax(1)[:, 1]
        wrong = torch.where(batch[1] == 1, (1 - share).log() * 0, share.log() * 0)
        return functional.nll_loss(torch.stack([1 - share, share], 1).log(), batch[1]) + (
            wrong.mean()
        )

    found = finding("PRE104", model, table(classes=2), step=step, optimizer=optimizer)
    assert found.severity == "warning"
    assert "NaN or infinite after" in found.message


def test_inputs_close_to_0_do_not_make_a_model_too_small() -> None:
    """Only the bias learns; the loss of two rows falls by a percent."""
    torch.manual_seed(0)
    x = torch.rand(32, 40) / 255
    y = (torch.arange(32) < 20).long()
    model = network(40, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    made = result("PRE104", model, [(x, y)], LOSS, optimizer=optimizer)
    told = made.reason + "".join(found.message for found in made.found)
    assert "two rows falls too slowly" in told or "it falls" in told
    assert "too small" not in told


def test_a_loss_that_is_0_from_the_start_proves_nothing() -> None:
    batches = [(x, torch.rand(len(x), 1)) for x, _ in table()]
    made = result("PRE104", nn.Linear(6, 1), batches, nn.CrossEntropyLoss())
    assert made.state == "not_applicable"
    assert "0 from the start" in made.reason
