"""What `stallbench list` shows of the scenario files. The files are parsed, and not validated, so that the list is there at once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from stallbench import PROJECT
from stallbench.engines import DEFAULT_ENGINE
from stallbench.errors import BadInputError
from stallbench.scenario.toml import read_toml, show_path
from stallbench.suggestion import did_you_mean

SCENARIOS = PROJECT / "scenarios"
_OTHER = "other"
"""The subject of a scenario that states none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """One scenario in the list."""

    name: str
    summary: str
    subject: str
    uses: str
    """Its engine and its queue, which words may ask for, too."""
    variants: Mapping[str, str]
    """The summary of each variant, by its name; empty if it has none."""

    def choose(self, words: Sequence[str]) -> Self | None:
        """Return it as far as it contains all ``words`` (in small letters), with the variants that do; none if it does not."""
        own = f"{self.name} {self.summary} {self.subject} {self.uses}".casefold()
        if all(word in own for word in words):
            return self
        fit = {
            name: summary
            for name, summary in self.variants.items()
            if all(word in f"{own} {name} {summary}".casefold() for word in words)
        }
        chosen = type(self)(name=self.name, summary=self.summary, subject=self.subject, uses=self.uses, variants=fit)
        return chosen if fit else None


def find_scenarios() -> dict[str, Path]:
    """Return the project's scenarios by name, in alphabetical order."""
    return {path.stem: path for path in sorted(SCENARIOS.glob("*.toml"))}


def list_scenarios(words: Sequence[str] = ()) -> dict[str, list[Listed]]:
    """Return the project's scenarios that contain all ``words``, by their subject; subjects and names are in alphabetical order.

    Raises `BadInputError` if a file is not TOML, or if no scenario contains the words.
    """
    listed = [_read(name, path) for name, path in find_scenarios().items()]
    folded = [word.casefold() for word in words]
    chosen = [found for each in listed if (found := each.choose(folded))]
    if not chosen:
        raise BadInputError(_describe_no_match(folded, listed))
    subjects = sorted({each.subject for each in chosen}, key=lambda subject: (subject == _OTHER, subject))
    return {subject: [each for each in chosen if each.subject == subject] for subject in subjects}


def _read(name: str, path: Path) -> Listed:
    content = read_toml(path, show_path(path, PROJECT))
    variants = content.get("variants", {})
    used = [*_values(content, "database", "engine"), *_values(content, "queue", "kind")]
    return Listed(
        name=name,
        summary=str(content.get("summary", "")),
        subject=str(content.get("subject", _OTHER)),
        uses=" ".join(used or [DEFAULT_ENGINE]),
        variants={key: " ".join(_values(variants, key, "summary")) for key in variants} if isinstance(variants, dict) else {},
    )


def _values(content: Mapping[str, Any], table: str, key: str) -> list[str]:
    """Return the value of a key of a table in a list; empty if there is none."""
    inner = content.get(table)
    return [str(inner[key])] if isinstance(inner, dict) and key in inner else []


def _describe_no_match(words: Sequence[str], listed: Iterable[Listed]) -> str:
    known = set(_list_words(listed))
    unknown = [word for word in words if not any(word in other for other in known)]
    if unknown:
        return f'no scenario contains "{unknown[0]}"{did_you_mean(unknown[0], sorted(known))}; `stallbench list` shows all'
    return f"no scenario contains all of {', '.join(words)}; `stallbench list` shows all"


def _list_words(listed: Iterable[Listed]) -> Iterator[str]:
    for each in listed:
        texts = [each.name, each.summary, each.subject, each.uses, *each.variants, *each.variants.values()]
        for word in " ".join(texts).casefold().split():
            yield word.strip(".,:;()`'\"")
