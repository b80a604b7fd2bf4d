from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from tests.adapters.torch.watched import DEFAULT, classifier, sgd, watched
from torch import nn
from torch.nn import functional

from mothtrap.core.facts.losses import LossCall, TokenShares

TOKENS = torch.arange(48).reshape(4, 12) % 7


class LanguageModel(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(8, 6)
        self.layer = nn.GRU(6, 6, batch_first=True, bidirectional=True)
        self.head = nn.Linear(12, 8)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.head(self.layer(self.embedding(tokens))[0])


def trained(steps: int, target: Callable[[torch.Tensor], torch.Tensor]) -> list[LossCall]:
    model = LanguageModel()
    with watched(capture=DEFAULT) as seen:
        optimizer = sgd(model)
        for _ in range(steps):
            logits = model(TOKENS[:, :-1])
            functional.cross_entropy(logits.flatten(0, 1), target(TOKENS).flatten()).backward()
            optimizer.step()
            optimizer.zero_grad()
    return seen.observed(LossCall)


@pytest.mark.parametrize("offset", [0, 1])
@pytest.mark.parametrize("by_position", [False, True])
def test_targets_of_a_loss_in_a_loop_are_put_together(offset: int, by_position: bool) -> None:
    model, inputs, targets = LanguageModel(), TOKENS[:, :-1], TOKENS[:, offset : 11 + offset]
    with watched(capture=DEFAULT) as seen:
        optimizer = sgd(model)
        logits = model(inputs)
        pairs = zip(logits.transpose(0, 1), targets.T, strict=True) if by_position else None
        pairs = pairs or zip(logits, targets, strict=True)
        sum(functional.cross_entropy(scores, labels) for scores, labels in pairs).backward()
        optimizer.step()
    calls = seen.observed(LossCall)
    assert len(calls) == (11 if by_position else 4)
    found = [call.targets.input_offsets for call in calls if call.targets is not None]
    assert found == [(offset,), *[None] * (len(calls) - 1)]


class GraphModel(nn.Module):
    """Computes its loss in a method that never calls the model itself, as graph networks do."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Embedding(48, 5).requires_grad_(False)
        self.weight, self.criterion = nn.Parameter(torch.randn(5, 8)), nn.CrossEntropyLoss()

    def loss(self, nodes: list[int], labels: torch.Tensor) -> torch.Tensor:
        return self.criterion(self.features(torch.tensor(nodes)) @ self.weight, labels)


def test_the_labels_that_a_criterion_of_the_model_receives_are_no_input() -> None:
    with watched(capture=DEFAULT) as seen:
        model = GraphModel()
        optimizer, labels = torch.optim.SGD([model.weight], lr=0.1), TOKENS.flatten()
        model.loss(list(range(48)), labels).backward()
        optimizer.step()
    [call] = seen.observed(LossCall)
    assert call.targets is not None
    assert call.targets.input_offsets is None


class Decoder(nn.Module):
    """Gets its targets, and embeds them one position later or at the same position."""

    def __init__(self, *, shifts: bool, steps: bool) -> None:
        super().__init__()
        self.shifts, self.steps = shifts, steps
        self.embedding = nn.Embedding(8, 6)
        self.layer = nn.GRU(6, 6, batch_first=True)
        self.head = nn.Linear(6, 8)

    def forward(self, targets: torch.Tensor) -> torch.Tensor:
        first = torch.zeros_like(targets[:, :1])
        given = torch.cat([first, targets[:, :-1]], 1) if self.shifts else targets
        parts = given.split(1, dim=1) if self.steps else [given]
        state, outputs = None, []
        for part in parts:
            output, state = self.layer(self.embedding(part), state)
            outputs.append(output)
        return self.head(torch.cat(outputs, 1))


class Translator(nn.Module):
    """Encodes tokens, and decodes others from the state of the encoder."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.places = nn.Embedding(8, 6), nn.Embedding(20, 6)
        self.encoder = nn.GRU(6, 6, batch_first=True)
        self.decoder = nn.GRU(6, 6, batch_first=True)
        self.head = nn.Linear(6, 8)

    def forward(self, source: torch.Tensor, given: torch.Tensor) -> torch.Tensor:
        _, state = self.encoder(self.embedding(source))
        places = torch.arange(given.shape[1])
        return self.head(self.decoder(self.embedding(given) + self.places(places), state)[0])


@pytest.mark.parametrize(
    ("source", "given", "decoded"),
    [
        pytest.param(slice(0, -1), slice(1, None), True, id="its targets"),
        pytest.param(slice(1, None), slice(0, -1), False, id="an autoencoder"),
    ],
)
def test_a_decoder_that_is_given_its_targets_is_told(
    source: slice, given: slice, decoded: bool
) -> None:
    model = Translator()
    with watched() as seen:
        optimizer = sgd(model)
        for _ in range(3):
            logits = model(TOKENS[:, source], TOKENS[:, given])
            functional.cross_entropy(logits.flatten(0, 1), TOKENS[:, 1:].flatten()).backward()
            optimizer.step()
            optimizer.zero_grad()
    [sample] = [call.targets for call in seen.observed(LossCall) if call.targets is not None]
    assert (sample.input_offsets, sample.decoded) == ((0, 1), decoded)


@pytest.mark.parametrize("steps", [False, True])
def test_a_decoder_that_shifts_its_targets_is_not_given_them(steps: bool) -> None:
    found = {}
    for shifts in (False, True):
        model = Decoder(shifts=shifts, steps=steps)
        with watched(capture=DEFAULT) as seen:
            optimizer = sgd(model)
            for _ in range(2):
                functional.cross_entropy(model(TOKENS).mT, TOKENS).backward()
                optimizer.step()
                optimizer.zero_grad()
        [call, *_] = [c for c in seen.observed(LossCall) if c.targets is not None]
        assert call.targets is not None
        found[shifts] = call.targets.input_offsets
    assert found == {False: (0,), True: ()}


class StepDecoder(nn.Module):
    """Gets whole targets, shape (length, rows), and embeds one position after another."""

    def __init__(self, *, leaks: bool) -> None:
        super().__init__()
        self.leaks = leaks
        self.embedding, self.cell = nn.Embedding(8, 6), nn.GRUCell(6, 6)
        self.head = nn.Linear(6, 8)

    def forward(self, targets: torch.Tensor) -> torch.Tensor:
        state, given, outputs = torch.zeros(targets.shape[1], 6), targets[0], []
        for place in range(1, len(targets)):
            given = targets[place] if self.leaks else targets[place - 1]
            state = self.cell(self.embedding(given), state)
            outputs.append(self.head(state))
        return torch.stack(outputs)


@pytest.mark.parametrize("leaks", [False, True])
def test_a_decoder_that_is_given_each_target_at_its_position_is_told(leaks: bool) -> None:
    model = StepDecoder(leaks=leaks)
    with watched(capture=DEFAULT) as seen:
        optimizer = sgd(model)
        logits = model(TOKENS.T.contiguous())
        functional.cross_entropy(logits.flatten(0, 1), TOKENS.T[1:].flatten()).backward()
        optimizer.step()
    [sample] = [call.targets for call in seen.observed(LossCall) if call.targets is not None]
    assert (sample.input_offsets, sample.decoded) == ((1,), leaks)


class OwnLoss(nn.Module):
    """A loss module of the script, like those of PyTorch."""

    def forward(self, scores: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return functional.cross_entropy(scores, labels)


@pytest.mark.parametrize("criterion", [functional.cross_entropy, nn.CrossEntropyLoss(), OwnLoss()])
def test_labels_of_positions_are_known_whatever_computes_the_loss(criterion) -> None:
    model = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3))
    with watched(capture=DEFAULT) as seen:
        optimizer = sgd(model)
        for _ in range(2):
            optimizer.zero_grad()
            scores = model(torch.randn(4, 9, 6))
            criterion(scores.view(-1, 3), torch.randint(0, 3, (36,))).backward()
            optimizer.step()
    [call, *_] = [c for c in seen.observed(LossCall) if c.targets is not None]
    assert call.targets is not None
    assert call.targets.by_position


def test_targets_are_looked_at_on_sampled_steps() -> None:
    calls = trained(26, lambda tokens: tokens[:, :-1])
    looked = [call for call in calls if call.targets is not None]
    assert [call.step for call in looked] == [0, 8, 16, 24]
    assert all(call.targets.input_offsets == (0,) for call in looked)
    assert all(call.model_inputs == ("int64",) for call in looked)
    assert {call.reduction for call in calls} == {"mean"}
    assert {call.softmax_sizes for call in calls} == {(8,)}


def test_what_lets_the_model_look_ahead_is_asked_a_few_times() -> None:
    calls = trained(34, lambda tokens: tokens[:, 1:])
    assert [call.looks_ahead for call in calls if call.targets is not None] == [
        "recurrent",
        "recurrent",
        "recurrent",
        None,
        None,
    ]


def test_tokens_are_counted_now_and_then() -> None:
    model = LanguageModel()
    with watched(capture=DEFAULT) as seen:
        optimizer = sgd(model)
        for _ in range(9):
            logits = model(TOKENS)
            functional.cross_entropy(logits.flatten(0, 1), TOKENS.flatten()).backward()
            optimizer.step()
    first, second = seen.observed(TokenShares)
    assert (first.step, second.step, first.count, first.argument) == (0, 8, 48, "0")
    assert sum(first.shares.values()) == pytest.approx(1)
    assert first.shares[0] == pytest.approx(7 / 48)


def test_a_loss_that_is_not_finite_is_looked_at_out_of_turn() -> None:
    model = classifier()
    with watched(capture=DEFAULT) as seen:
        optimizer = sgd(model)
        for step in range(6):
            target = torch.full((4,), -100) if step == 5 else torch.tensor([0, 1, 2, 0])
            functional.cross_entropy(model(torch.randn(4, 6)), target).backward()
            optimizer.step()
    looked = [call for call in seen.observed(LossCall) if call.targets is not None]
    assert [(call.step, call.targets.ignored_share) for call in looked] == [(0, 0.0), (5, 1.0)]


def test_a_prediction_that_has_no_name_is_known() -> None:
    model = nn.Sequential(nn.Linear(6, 4), nn.ReLU())
    with watched(capture=DEFAULT) as seen:
        optimizer = sgd(model)
        ((model(torch.randn(8, 6)) - (-torch.ones(8, 4))) ** 2).mean().backward()
        optimizer.step()
    shares = [c.targets.outside_share for c in seen.observed(LossCall) if c.targets is not None]
    assert shares == [1.0]


def test_the_output_of_another_forward_is_not_taken_for_the_prediction() -> None:
    judge = nn.Sequential(nn.Linear(6, 1), nn.Sigmoid())
    with watched(capture=DEFAULT) as seen:
        optimizer = sgd(judge)
        real, fake = judge(torch.randn(8, 6)), judge(torch.randn(8, 6))
        ((real - 1) ** 2).mean().backward(retain_graph=True)
        ((real - 1) ** 2 + fake**2).mean().backward()
        optimizer.step()
    assert all(call.targets is None for call in seen.observed(LossCall))


def test_looking_draws_no_random_numbers_and_changes_no_gradient() -> None:
    model = classifier()
    x, y = torch.randn(32, 6), torch.arange(32) % 3
    functional.cross_entropy(model(x), y).backward()
    own = [parameter.grad.clone() for parameter in model.parameters()]
    model.zero_grad()
    state = torch.random.get_rng_state()
    with watched(capture=DEFAULT):
        optimizer = sgd(model, rate=0.0)
        functional.cross_entropy(model(x), y).backward()
        optimizer.step()
    assert torch.equal(torch.random.get_rng_state(), state)
    assert all(torch.equal(p.grad, g) for p, g in zip(model.parameters(), own, strict=True))


@pytest.mark.parametrize("packs", [True, False])
def test_packed_sequences_are_told(packs: bool) -> None:
    words, layer, head = nn.Embedding(9, 4), nn.GRU(4, 6, batch_first=True), nn.Linear(6, 9)

    class Tagger(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.words, self.layer, self.head = words, layer, head

        def forward(self, tokens: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
            given = self.words(tokens)
            if packs:
                given = nn.utils.rnn.pack_padded_sequence(given, lengths, batch_first=True)
            out, _ = self.layer(given)
            if packs:
                out, _ = nn.utils.rnn.pad_packed_sequence(out, batch_first=True)
            return self.head(out)  # type: ignore[no-any-return]

    model = Tagger()
    with watched() as seen:
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        tokens = torch.tensor([[1, 2, 3, 4, 5, 6], [3, 4, 5, 0, 0, 0]])
        out = model(tokens, torch.tensor([6, 3]))
        functional.cross_entropy(out.flatten(0, 1), tokens.flatten()).backward()
        optimizer.step()
    found = [one for one in seen.observed(TokenShares) if isinstance(one, TokenShares)]
    assert [one.packed for one in found] == [packs]


@pytest.mark.parametrize(("ignored", "known"), [(2, 2), (-100, None), (7, None)])
def test_an_ignored_class_is_told(ignored: int, known: int | None) -> None:
    model = classifier()
    with watched(capture=DEFAULT) as seen:
        optimizer = sgd(model)
        out = model(torch.randn(9, 6))
        labels = torch.arange(9) % out.shape[1]
        functional.cross_entropy(out, labels, ignore_index=ignored).backward()
        optimizer.step()
    [call] = [one for one in seen.observed(LossCall) if isinstance(one, LossCall)]
    assert call.targets is not None
    assert call.targets.ignored_class == known
