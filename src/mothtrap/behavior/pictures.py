"""Pictures of a model by name, for a report and for the run."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from mothtrap.behavior.attribution import METHODS, Method
from mothtrap.behavior.attribution_charts import attribution_chart
from mothtrap.behavior.latent import latent_chart
from mothtrap.behavior.pruning import pruning_curve
from mothtrap.behavior.residual_charts import quantile_chart, residual_chart
from mothtrap.behavior.subject import Subject
from mothtrap.core.errors import ConfigError, NotApplicable, NotEnoughData, nearest
from mothtrap.reader.plots import Chart

Make = Callable[[Subject], Chart]


def _of(method: Method) -> Make:
    return lambda subject: attribution_chart(subject, method)


PICTURES: dict[str, Make] = {
    "residuals": residual_chart,
    "quantiles": quantile_chart,
    **{method: _of(method) for method in METHODS},
    "latent": latent_chart,
    "latent_tsne": lambda subject: latent_chart(subject, "tsne"),
    "pruning": lambda subject: pruning_curve(subject).chart(),
}
"""Pictures of the whole model, by name."""
ALL = "all"


def checked(names: Sequence[str]) -> tuple[str, ...]:
    """Return the names of pictures; "all" means every picture.

    Raises:
        ConfigError: there is no such picture.
    """
    if ALL in names:
        return tuple(PICTURES)
    for name in names:
        if name not in PICTURES:
            raise ConfigError(
                f"no picture {name!r}{nearest(name, PICTURES)}; there are: {', '.join(PICTURES)}"
            )
    return tuple(dict.fromkeys(names))


def drawn(subject: Subject, names: Sequence[str]) -> tuple[dict[str, Chart], dict[str, str]]:
    """Return the charts by name, and the reason for each chart that cannot be drawn."""
    charts: dict[str, Chart] = {}
    reasons: dict[str, str] = {}
    for name in names:
        try:
            charts[name] = PICTURES[name](subject)
        except (NotApplicable, NotEnoughData) as err:
            reasons[name] = str(err)
    return charts, reasons
