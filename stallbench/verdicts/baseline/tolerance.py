"""How much worse than the baseline a metric may be: ``20%`` of the baseline, or for one metric ``latency_ms.p95=50%`` or ``deadlocks.count=5``."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from stallbench.errors import BadInputError
from stallbench.measures import metric_names
from stallbench.suggestion import did_you_mean
from stallbench.verdicts.baseline.baseline_file import Kind

DEFAULT_PERCENT = 20.0
SUSTAINED_RATE = "sustained_rate"
"""What a search for a limit is compared by: the highest rate that was sustained, in jobs per second."""
DRIFT = "drift"
"""By how many percent of its median a figure changes from the first cycle of a soak to the last. A tolerance of it is added, in percentage points."""
_EXPECTED = "expected a percentage, like 20%, or one for a metric, like latency_ms.p95=50%, or a number in its unit, like deadlocks.count=5"

_COMPARED: Mapping[Kind, str] = {
    "run": "of runs only metrics like latency_ms.p95 can be given",
    "limit": f"of a limit only {SUSTAINED_RATE} can be given",
    "soak": f"of soaks only {DRIFT} and metrics like table_bytes.last can be given",
}


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
            raise BadInputError(
                f'--tolerance {option}: there is no metric "{metric}"{did_you_mean(metric, known)}; expected a metric of docs/measures.md, '
                f"like latency_ms.p95, or {SUSTAINED_RATE} or {DRIFT}"
            )
    return Tolerance(default, by_metric)


def require_compared(tolerance: Tolerance, kind: Kind) -> None:
    """Raise `BadInputError` if a metric of ``tolerance`` is never compared with a baseline of ``kind``, so that it would have no effect."""
    for metric in tolerance.by_metric:
        is_measure = metric not in (SUSTAINED_RATE, DRIFT)
        if metric == SUSTAINED_RATE if kind == "limit" else is_measure or (kind == "soak" and metric == DRIFT):
            continue
        raise BadInputError(f"--tolerance {metric}=..: {metric} is not compared with this baseline; {_COMPARED[kind]}")


def _read_allowance(option: str, text: str) -> Allowance:
    try:
        amount = float(text.removesuffix("%"))
    except ValueError:
        amount = math.nan
    if not 0 <= amount < math.inf:
        raise BadInputError(f"--tolerance {option}: {_EXPECTED}")
    return Allowance(amount, is_percent=text.endswith("%"))
