from __future__ import annotations

import pytest
import torch
from tests.adapters.torch.watched import Seen, classifier, sgd, watched
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from mothtrap.adapters.torch.data import overlap
from mothtrap.core.facts.data import RowsShared

Tensor = torch.Tensor


def epoch(model: nn.Module, x: Tensor, *, size: int = 20, shuffle: bool = True) -> None:
    optimizer = sgd(model)
    order = torch.randperm(len(x)) if shuffle else torch.arange(len(x))
    for rows in order.split(size):
        optimizer.zero_grad()
        model(x[rows]).square().mean().backward()
        optimizer.step()


def evaluate(model: nn.Module, *parts: Tensor) -> None:
    with torch.no_grad():
        for part in parts:
            model(part)


def end(model: nn.Module, seen: Seen) -> None:
    """Report the last evaluation in another step, because no worker ends here."""
    seen.tracer.forwards.inputs.overlap.ended()
    epoch(model, torch.randn(40, 6))


def told(seen: Seen) -> list[tuple[int, int, int]]:
    return [(t.train_rows, t.eval_rows, t.shared) for t in seen.observed(RowsShared)]


def test_rows_that_were_trained_on_are_counted_once_training_is_known() -> None:
    model, x = classifier(), torch.randn(120, 6)
    with watched() as seen:
        for _ in range(3):
            epoch(model, x[:100])
            evaluate(model, x[90:])
        end(model, seen)
    assert told(seen) == [(100, 30, 10)] * 2
    found = seen.observed(RowsShared)[0]
    assert (found.module, found.argument, found.expected_share) == ("Sequential", "input", 0.0)
    assert found.source.startswith("calls with 30 rows at ")
    assert "test_overlap.py:" in (found.location or "")


def test_nothing_is_told_while_new_rows_come() -> None:
    model = classifier()
    with watched() as seen:
        for _ in range(6):
            x = torch.randn(100, 6)
            epoch(model, x)
            evaluate(model, x[:50])
    assert told(seen) == []


def test_a_loader_that_ended_has_given_all_its_rows() -> None:
    model, x = classifier(), torch.randn(120, 6)
    data = DataLoader(TensorDataset(x[:100]), batch_size=20, shuffle=True)
    held_out = DataLoader(TensorDataset(x[95:]), batch_size=10)
    with watched() as seen:
        optimizer = sgd(model)
        for (rows,) in data:
            optimizer.zero_grad()
            model(rows).square().mean().backward()
            optimizer.step()
        for (rows,) in held_out:
            evaluate(model, rows)
        end(model, seen)
    assert told(seen) == [(100, 25, 5)]
    [found] = seen.observed(RowsShared)
    assert found.source == "loader 2"


def test_training_data_and_others_evaluated_by_one_function_are_kept_apart() -> None:
    model, x = classifier(), torch.randn(150, 6)
    with watched() as seen:
        for _ in range(2):
            epoch(model, x[:100])
        evaluate(model, x[:100], x[100:])
        end(model, seen)
    assert sorted(told(seen)) == [(100, 50, 0), (100, 100, 100)]


def test_full_batches_are_known_at_the_second_step() -> None:
    model, x = classifier(), torch.randn(100, 6)
    with watched() as seen:
        epoch(model, x[:80], size=80, shuffle=False)
        epoch(model, x[:80], size=80, shuffle=False)
        evaluate(model, x[60:])
        end(model, seen)
    assert told(seen) == [(80, 40, 20)]


def test_data_with_few_different_rows_explain_equal_ones() -> None:
    rows = torch.randint(0, 2, (400, 6)).float()
    with watched() as seen:
        model = classifier()
        for _ in range(2):
            epoch(model, rows[:300])
        evaluate(model, rows[300:])
        end(model, seen)
    [found] = seen.observed(RowsShared)
    assert found.shared >= found.eval_rows - 3
    assert found.expected_share > 0.4


def test_rows_drawn_with_replacement_explain_nothing() -> None:
    model, x = classifier(), torch.randn(120, 6)
    with watched() as seen:
        optimizer = sgd(model)
        for _ in range(100):
            optimizer.zero_grad()
            model(x[torch.randint(0, 100, (20,))]).square().mean().backward()
            optimizer.step()
        evaluate(model, x[80:])
        end(model, seen)
    [found] = seen.observed(RowsShared)
    assert found.shared >= 18
    assert found.expected_share == 0


@pytest.mark.parametrize("x", [torch.randn(100, 1), torch.randn(100)])
def test_single_numbers_are_no_rows(x: Tensor) -> None:
    model = nn.Linear(1, 1)
    with watched() as seen:
        for _ in range(2):
            epoch(model, x.reshape(-1, 1))
        evaluate(model, x.reshape(-1, 1))
    assert told(seen) == []


def test_so_many_rows_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(overlap, "TRAIN_ROWS", 60)
    model, x = classifier(), torch.randn(120, 6)
    with watched() as seen:
        for _ in range(3):
            epoch(model, x[:100])
            evaluate(model, x[90:])
    assert told(seen) == []


def test_calls_of_different_sizes_are_kept_apart_but_for_what_is_left_at_the_end() -> None:
    model, x = classifier(), torch.randn(150, 6)
    with watched() as seen:
        for _ in range(2):
            epoch(model, x)
        evaluate(model, x, x[100:], *x.split(40))
        end(model, seen)
    assert sorted(told(seen)) == [(150, 50, 50), (150, 150, 150), (150, 150, 150)]


def test_a_teacher_of_the_same_rows_is_no_evaluation() -> None:
    teacher, model, x = classifier(), classifier(), torch.randn(100, 6)
    with watched() as seen:
        for _ in range(3):
            epoch(teacher, x)
        kept = sgd(teacher)
        optimizer = sgd(model)
        for rows in torch.randperm(100).split(20):
            optimizer.zero_grad()
            with torch.no_grad():
                wanted = teacher(x[rows])
            (model(x[rows]) - wanted).square().mean().backward()
            with torch.no_grad():
                teacher(x[rows])
            optimizer.step()
        end(model, seen)
    assert kept.param_groups
    assert told(seen) == []


def test_the_same_rows_evaluated_after_every_step_are_an_evaluation() -> None:
    model, x = classifier(), torch.randn(120, 6)
    with watched() as seen:
        for _ in range(4):
            epoch(model, x[:100], size=100)
            evaluate(model, x[90:])
        end(model, seen)
    assert told(seen) == [(100, 30, 10)]


def test_rows_on_which_several_steps_are_made_before_the_next_are_no_evaluation() -> None:
    """Reinforcement learning collects rows, then makes a few steps on them (bootstrapped targets).

    The numbers of rows differ, as those of episodes do.
    """
    model = classifier()
    with watched() as seen:
        optimizer = sgd(model)
        for size in (14, 14, 13, 20, 20, 7):
            x = torch.randn(size + 1, 6)
            for _ in range(3):
                target = model(x[1:]).detach() - model(x[:-1]).detach()
                optimizer.zero_grad()
                policy, value = model(x[:-1]), model(x[:-1])
                (policy + value - target).square().mean().backward()
                optimizer.step()
        end(model, seen)
    assert told(seen) == []


def test_a_small_evaluation_without_equal_rows_does_not_rule_out_chance() -> None:
    model, x = classifier(), torch.randint(0, 3, (900, 6)).float()
    held_out = torch.unique(torch.randint(0, 3, (60, 6)).float(), dim=0)[:30]
    loader = DataLoader(TensorDataset(x), batch_size=30, shuffle=True)
    with watched() as seen:
        optimizer = sgd(model)
        for _ in range(3):
            for (rows,) in loader:
                optimizer.zero_grad()
                model(rows).square().mean().backward()
                optimizer.step()
            evaluate(model, held_out)
        end(model, seen)
    found = seen.observed(RowsShared)
    assert found
    assert all(one.expected_share > 0.3 and one.shared > 10 for one in found)


def test_sparse_rows_are_compared() -> None:
    model = Sparse()
    x = torch.randn(120, 6) * (torch.rand(120, 6) < 0.8)
    with watched() as seen:
        optimizer = sgd(model)
        for _ in range(3):
            optimizer.zero_grad()
            model(x[:100].to_sparse()).square().mean().backward()
            optimizer.step()
        with torch.no_grad():
            model(x[90:].to_sparse())
        end(model, seen)
    [(_, rows, shared)] = told(seen)
    assert (rows, shared) == (30, 10)


class Sparse(nn.Module):
    """A linear layer of rows that may be sparse."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(6, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x @ self.linear.weight.T + self.linear.bias


def test_targets_of_a_step_are_no_evaluation_in_light_steps_either() -> None:
    model, x = classifier(), torch.randn(60, 6)

    def targets(part: Tensor) -> Tensor:
        with torch.no_grad():
            return 0.9 * model(part).max(1)[0]

    with watched() as seen:
        optimizer = sgd(model)
        for number in range(80):
            rows = torch.randperm(60)[:20]
            if number > 70:  # as when the forward of a light step is not inspected
                target = targets(x[rows])
                prediction = model(x[rows])[:, 0]
            else:
                prediction = model(x[rows])[:, 0]
                target = targets(x[rows])
            optimizer.zero_grad()
            (prediction - target).square().mean().backward()
            optimizer.step()
        end(model, seen)
    assert told(seen) == []


@pytest.mark.parametrize("copied", [False, True], ids=["training loader", "dataset of its own"])
def test_a_loader_with_a_dataset_of_its_own_is_told(copied: bool) -> None:
    model, x = classifier(), torch.randn(60, 6)
    data = DataLoader(TensorDataset(x), batch_size=20, shuffle=True)
    held_out = DataLoader(TensorDataset(x.clone()), batch_size=20) if copied else data
    with watched() as seen:
        optimizer = sgd(model)
        for _ in range(2):
            for (rows,) in data:
                optimizer.zero_grad()
                model(rows).square().mean().backward()
                optimizer.step()
        for (rows,) in held_out:
            evaluate(model, rows)
        end(model, seen)
    assert [one.own_dataset for one in seen.observed(RowsShared)] == [copied]
