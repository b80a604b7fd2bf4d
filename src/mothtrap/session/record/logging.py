"""Logging of an experiment by a script: parameters, texts, tables, images, files, figures."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from mothtrap.session.record.keeper import RecordKeeper


class RecordLog:
    """Methods by which a script adds to the record of its run; none of them raises.

    What cannot be kept is left out, and said once. Names are data: they are no paths. Files of one
    name are versions of it, by step.

    Args:
        keeper: keeps what is logged; None keeps nothing.
    """

    def __init__(self, keeper: RecordKeeper | None) -> None:
        self._keeper = keeper

    def log_params(self, params: Mapping[str, Any] | Any = None, /, **more: Any) -> None:
        """Record parameters; a later value of a name counts.

        Args:
            params: by name, nested as well; a dataclass or a namespace is read as a mapping.
            **more: the same, e.g. `lr=0.1`.
        """
        if self._keeper is not None:
            if params is not None:
                self._keeper.parameters(params)
            if more:
                self._keeper.parameters(more)

    def log_text(self, name: str, text: str) -> None:
        """Record a text of at most 1 MiB, such as a sample that a model wrote."""
        if self._keeper is not None:
            self._keeper.text(name, text)

    def log_table(self, name: str, rows: Any, columns: Sequence[str] | None = None) -> None:
        """Record a table; the first 10,000 rows and 200 columns are kept.

        Args:
            name: of the table.
            rows: a data frame, a mapping of columns, or rows (mappings or sequences).
            columns: names, where rows are sequences.
        """
        if self._keeper is not None:
            self._keeper.table(name, rows, columns)

    def log_image(self, name: str, image: Any) -> None:
        """Record an image.

        Args:
            name: of the image.
            image: of Pillow, or an array or tensor of shape (height, width), (height, width,
                channels) or (channels, height, width): integers from 0 to 255, other numbers from
                0 to 1.
        """
        if self._keeper is not None:
            self._keeper.image(name, image)

    def log_artifact(
        self, path: str | os.PathLike[str], name: str = "", *, keep: bool = False
    ) -> None:
        """Record the SHA-256 and the size of a file, or of all files of a folder.

        Args:
            path: of the file or folder, which is read now.
            name: of the artifact; default: that of the file.
            keep: whether to copy the file into the run, up to 256 MiB.
        """
        if self._keeper is not None:
            self._keeper.artifact(path, name, keep=keep)

    def log_predictions(
        self, labels: Any, scores: Any, name: str = "predictions", classes: Sequence[str] = ()
    ) -> None:
        """Record confusion matrix, ROC and precision-recall curves of a classifier.

        Args:
            labels: the true classes, whole numbers, shape (N,).
            scores: probabilities or logits, shape (N, classes), or (N,) of class 1 of two; whole
                numbers of shape (N,) are predicted classes.
            name: of the data that were predicted, e.g. `test`.
            classes: names of the classes.
        """
        if self._keeper is not None:
            self._keeper.predictions(labels, scores, name, classes)

    def log_figure(self, name: str, figure: Any) -> None:
        """Record a figure of at most 16 MiB.

        Args:
            name: of the figure.
            figure: of matplotlib, Altair, Plotly or Bokeh, a Vega-Lite specification, or HTML. It
                is shown without any access to the network or to the page.
        """
        if self._keeper is not None:
            self._keeper.figure(name, figure)
