"""What every case begins with: arguments, seeds, sentences with topics, and a small BERT."""

import argparse
import tempfile
import warnings

import numpy as np
import torch
import transformers
from torch.utils.data import Dataset

WORDS, LENGTH = 60, 16


def start():
    """Return whether the repaired twin is wanted; seed everything."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--healthy", action="store_true")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    transformers.logging.set_verbosity_error()
    transformers.set_seed(given.seed)
    return given.healthy


class Texts(Dataset):
    """Sentences in which words of one topic are frequent: the topic is the label."""

    def __init__(self, rows, seed, topics=4):
        rng = torch.Generator().manual_seed(seed)
        topic = torch.randint(0, topics, (rows,), generator=rng)
        words = torch.randint(2, WORDS, (rows, LENGTH), generator=rng)
        own = 2 + topic[:, None] * 14 + torch.randint(0, 14, (rows, LENGTH), generator=rng)
        self.words = torch.where(torch.rand(rows, LENGTH, generator=rng) < 0.45, own, words)
        self.columns = {"topic": topic, "source": torch.randint(0, topics, (rows,), generator=rng)}
        self.label = "topic"

    def __len__(self):
        return len(self.words)

    def __getitem__(self, row):
        return {"input_ids": self.words[row], "labels": int(self.columns[self.label][row])}


def bert(labels=4):
    return transformers.BertForSequenceClassification(
        transformers.BertConfig(
            vocab_size=WORDS, hidden_size=32, num_hidden_layers=2, num_attention_heads=4,
            intermediate_size=64, max_position_embeddings=LENGTH, num_labels=labels,
        )
    )


def settings(**given):
    return transformers.TrainingArguments(
        output_dir=tempfile.mkdtemp(), per_device_train_batch_size=32, learning_rate=1e-3,
        per_device_eval_batch_size=128, eval_strategy="epoch", logging_steps=10, save_strategy="no",
        report_to=[], use_cpu=True, disable_tqdm=True, **{"num_train_epochs": 6, **given},
    )


def accuracy(given):
    logits, labels = given
    return {"accuracy": float((np.argmax(logits, axis=-1) == labels).mean())}
