"""A statement as tokens, and the clauses that operators change: enough of SQL for that, and for the bodies of PL/pgSQL functions."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

_TOKEN = re.compile(
    r"""
    (?P<space>\s+|--[^\n]*)
    |(?P<string>'(?:[^']|'')*')
    |(?P<parameter>\$\d+|\?)
    |(?P<placeholder>\{\w+\})
    |(?P<dollar>\$\w*\$)
    |(?P<number>\d+(?:\.\d+)?)
    |(?P<word>[A-Za-z_]\w*|"[^"]*")
    |(?P<sign><=|>=|<>|!=|::|\|\||->>|->|<<|:=|.)
    """,
    re.VERBOSE | re.DOTALL,
)
_BOUNDARIES = frozenset(
    {"WHERE", "ORDER", "GROUP", "LIMIT", "FOR", "RETURNING", "UNION", "LOOP", "THEN", "ON", "SET", "FROM", "SELECT", "HAVING"}
    | {"WHEN", "DO", "END", "ELSE", ";", "JOIN", "LEFT", "CROSS", "VALUES", "DECLARE"}
)
"""Words that end a condition."""


@dataclass(frozen=True, slots=True)
class Token:
    """One token, without the spaces before it."""

    kind: str
    text: str
    start: int
    end: int
    depth: int
    """Number of open parentheses around it."""

    @property
    def word(self) -> str:
        """The text in capitals."""
        return self.text.upper()


class Statement:
    """A statement's text and tokens."""

    def __init__(self, text: str) -> None:
        """Read the tokens."""
        self.text = text
        self.tokens = list(_read(text))

    def find(self, *words: str, since: int = 0) -> Iterator[int]:
        """Yield the position of each run of tokens that has these words."""
        for at in range(since, len(self.tokens) - len(words) + 1):
            if all(token.word == word for token, word in zip(self.tokens[at:], words, strict=False)):
                yield at

    def span(self, first: int, last: int) -> tuple[int, int]:
        """Return where the tokens from ``first`` to ``last`` begin and end in the text."""
        return self.tokens[first].start, self.tokens[last].end

    def read(self, first: int, last: int) -> str:
        """Return the text of these tokens."""
        start, end = self.span(first, last)
        return self.text[start:end]

    def end_of_call(self, opening: int) -> int:
        """Return the position of the parenthesis that closes the one at ``opening``."""
        depth = self.tokens[opening].depth
        return next(
            at for at in range(opening + 1, len(self.tokens)) if self.tokens[at].text == ")" and self.tokens[at].depth == depth
        )

    def end_of_term(self, first: int, stops: frozenset[str] = frozenset({"AND", "OR"})) -> int:
        """Return the last token of the condition that begins at ``first``: before a connective, the end of a clause or a closing parenthesis."""
        depth, is_range, last = self.tokens[first].depth, False, first
        for at in range(first, len(self.tokens)):
            token = self.tokens[at]
            if token.depth < depth:
                break
            if token.depth == depth:
                if at > first and token.text == ")" and self.tokens[first].text != "(" and not self._closes_later(first, at):
                    break
                if token.word == "BETWEEN":
                    is_range = True
                elif token.word in stops and not (token.word == "AND" and is_range):
                    break
                elif token.word == "AND":
                    is_range = False
                elif token.word in _BOUNDARIES and at > first:
                    break
            last = at
        return last

    def _closes_later(self, first: int, closing: int) -> bool:
        """Whether the parenthesis at ``closing`` was opened since ``first``."""
        depth = self.tokens[closing].depth
        return any(token.text == "(" and token.depth == depth for token in self.tokens[first:closing])

    def conditions(self) -> Iterator[Sequence[tuple[int, int]]]:
        """Yield the terms of each condition: of a WHERE, or of parentheses in which there are connectives."""
        starts = [at + 1 for at in self.find("WHERE")]
        starts += [
            at + 1
            for at, token in enumerate(self.tokens)
            if token.text == "(" and self._has_connective(at, self.end_of_call(at)) and not self._begins_query(at + 1)
        ]
        for start in starts:
            terms = []
            first = start
            while first < len(self.tokens):
                last = self.end_of_term(first)
                terms.append((first, last))
                if last + 1 >= len(self.tokens) or self.tokens[last + 1].word not in ("AND", "OR"):
                    break
                first = last + 2
            yield terms

    def _begins_query(self, at: int) -> bool:
        return self.tokens[at].word in ("SELECT", "WITH", "INSERT", "UPDATE", "DELETE")

    def _has_connective(self, opening: int, closing: int) -> bool:
        depth = self.tokens[opening].depth + 1
        return any(token.depth == depth and token.word in ("AND", "OR") for token in self.tokens[opening:closing])

    def lists(self, *words: str) -> Iterator[tuple[int, list[tuple[int, int]]]]:
        """Yield, for each clause that begins with these words, where it begins and its parts between commas."""
        for at in self.find(*words):
            parts, first = [], at + len(words)
            while first < len(self.tokens):
                last = self.end_of_term(first, frozenset({","}))
                parts.append((first, last))
                if last + 1 >= len(self.tokens) or self.tokens[last + 1].text != ",":
                    break
                first = last + 2
            yield at, parts


def _read(text: str) -> Iterator[Token]:
    depth = 0
    for found in _TOKEN.finditer(text):
        kind = found.lastgroup
        assert kind is not None
        if kind == "space":
            continue
        depth -= found[0] == ")"
        yield Token(kind, found[0], found.start(), found.end(), depth)
        depth += found[0] == "("
