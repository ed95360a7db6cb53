"""How much worse than the baseline a metric may be: ``20%`` of the baseline, or for one metric ``latency_ms.p95=50%`` or ``deadlocks.count=5``."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from stallbench.errors import BadInputError
from stallbench.measures import metric_names
from stallbench.scenario.validation.suggestion import did_you_mean

DEFAULT_PERCENT = 20.0
SUSTAINED_RATE = "sustained_rate"
"""What a search for a limit is compared by: the highest rate that was sustained, in jobs per second."""
DRIFT = "drift"
"""By how many percent of its median a figure changes from the first cycle of a soak to the last. A tolerance of it is added, in percentage points."""
_EXPECTED = "expected a percentage, like 20%, or one for a metric, like latency_ms.p95=50%, or a number in its unit, like deadlocks.count=5"


@dataclass(frozen=True, slots=True)
class Allowance:
    """How much worse one metric may be."""

    amount: float
    is_percent: bool

    def of(self, reference: float) -> float:
        """Return it in the metric's unit, for a baseline of ``reference``."""
        return self.amount / 100 * abs(reference) if self.is_percent else self.amount

    def __str__(self) -> str:
        return f"{self.amount:g} %" if self.is_percent else f"{self.amount:,g}"


@dataclass(frozen=True, slots=True)
class Tolerance:
    """What the options ``--tolerance`` say."""

    default: Allowance = Allowance(DEFAULT_PERCENT, is_percent=True)
    by_metric: Mapping[str, Allowance] = field(default_factory=dict)

    def for_metric(self, metric: str) -> Allowance:
        """Return how much worse ``metric`` may be, in every phase."""
        return self.by_metric.get(metric, self.default)


def read_tolerance(options: Sequence[str]) -> Tolerance:
    """Return what ``options`` say, of which a later one replaces an earlier one; raises `BadInputError`."""
    default = Allowance(DEFAULT_PERCENT, is_percent=True)
    by_metric: dict[str, Allowance] = {}
    known = [*metric_names(), SUSTAINED_RATE, DRIFT]
    for option in options:
        metric, equals, text = option.rpartition("=")
        allowance = _read_allowance(option, text.strip())
        if not equals:
            if not allowance.is_percent:
                raise BadInputError(f"--tolerance {option}: metrics have different units; {_EXPECTED}")
            default = allowance
        elif metric.strip() in known:
            by_metric[metric.strip()] = allowance
        else:
            raise BadInputError(f'--tolerance {option}: there is no metric "{metric}"{did_you_mean(metric, known)}')
    return Tolerance(default, by_metric)


def _read_allowance(option: str, text: str) -> Allowance:
    try:
        amount = float(text.removesuffix("%"))
    except ValueError:
        amount = math.nan
    if not 0 <= amount < math.inf:
        raise BadInputError(f"--tolerance {option}: {_EXPECTED}")
    return Allowance(amount, is_percent=text.endswith("%"))
