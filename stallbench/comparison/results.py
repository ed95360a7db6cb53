"""From the values of all runs to what the comparison shows. Reads a record only, so that it can be done again at any time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from stallbench.comparison.advice import recommend
from stallbench.comparison.assessment import Judgement, judge_variants
from stallbench.comparison.ranking import Agreement, compare_with_published
from stallbench.comparison.record import ComparisonRecord
from stallbench.comparison.standings import Compared, compare
from stallbench.comparison.statistics import ByRound
from stallbench.scenario.model import CONTROL


@dataclass(frozen=True, slots=True, kw_only=True)
class Results:
    """What the comparison shows."""

    compared: tuple[Compared, ...]
    """The ranked subject first; costs that no run has a value of are left out."""
    agreements: tuple[Agreement, ...]
    """With each published column."""
    judgements: Mapping[str, Judgement]
    """By variant; empty where words do not apply."""
    broken: Mapping[str, str]
    """By variant of which a run lost jobs or repeated them without a reason: what was found in the first such run."""
    recommendation: str

    @property
    def ranked(self) -> Compared:
        """All variants in what they are ranked by."""
        return self.compared[0]

    @property
    def has_words(self) -> bool:
        """Whether any variant got a word."""
        return any(judgement.word for judgement in self.judgements.values())

    def as_json(self) -> dict[str, Any]:
        """Return it for ``comparison.json``."""
        return {
            "compared": [
                {
                    "subject": each.subject.key,
                    "standings": {name: asdict(standing) for name, standing in each.standings.items()},
                }
                for each in self.compared
            ],
            "agreements": [asdict(agreement) for agreement in self.agreements],
            "judgements": {name: asdict(judgement) for name, judgement in self.judgements.items()},
            "broken": dict(self.broken),
            "recommendation": self.recommendation,
        }


def find_results(record: ComparisonRecord) -> Results:
    """Return what the runs that were completed show."""
    compared = tuple(
        compare(subject, values, record.names, seed=record.seed)
        for subject in record.subjects
        if subject.role != "health"
        for values in [_values(record, subject.key)]
        if subject.role not in ("cost", "held_out") or any(values.values())
    )
    ranked, judgements = compared[0], _judge(record)
    broken = {run.variant: run.broken for run in reversed(record.runs) if run.broken}
    return Results(
        compared=compared,
        agreements=tuple(
            compare_with_published(ranked.medians, record.published, ranked.subject.better, ranked.differ),
        ),
        judgements=judgements,
        broken=broken,
        recommendation=recommend(compared, judgements, broken),
    )


def _values(record: ComparisonRecord, key: str) -> dict[str, ByRound]:
    """Return what the completed runs of each variant have as the value ``key``, by round."""
    values: dict[str, dict[int, float]] = {name: {} for name in record.names}
    for run in record.runs:
        value = run.values.get(key)
        if run.status == "completed" and value is not None:
            values[run.variant][run.round] = value
    return dict(values)


def _judge(record: ComparisonRecord) -> dict[str, Judgement]:
    """Return the words; none where no mitigation is at stake: without control, or when methods are ranked against published figures."""
    if record.names[0] != CONTROL or record.published:
        return {}
    subject = record.ranked
    ranked = _values(record, subject.key)
    health: Mapping[str, ByRound] | None = None
    if subject.relative_to is not None and subject.relative_to == record.baseline:
        health = {name: dict.fromkeys(values, 1.0) for name, values in ranked.items()}
    elif of_health := [each for each in record.subjects if each.role == "health"]:
        health = _values(record, of_health[0].key)
    return judge_variants(ranked, health, better=subject.better, control=CONTROL, seed=record.seed)
