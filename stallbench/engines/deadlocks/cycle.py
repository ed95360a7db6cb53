"""The cycle of a deadlock as chains of waiting transactions, in the order in which a diagram shows them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from stallbench.engines.deadlocks.deadlock import Deadlock, Transaction, Wait


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitChain:
    """Transactions, each waiting for a lock of the next."""

    steps: tuple[tuple[Transaction, Wait | None], ...]
    """Each transaction with its wait; None where the listing does not say what it waits for."""
    closed: bool
    """Whether the last transaction waits for a lock of the first."""


def find_chains(deadlock: Deadlock) -> Sequence[WaitChain]:
    """Return the cycle, then the chains that the listing leaves open; a complete listing leaves none."""
    waits = {wait.waiter.number: wait for wait in deadlock.waits()}
    transactions = {transaction.number: transaction for transaction in deadlock.transactions}
    left = list(transactions)
    chains: list[WaitChain] = []
    cycle = _find_cycle(waits, left)
    if cycle:
        chains.append(WaitChain(steps=tuple((transactions[number], waits[number]) for number in cycle), closed=True))
        left = [number for number in left if number not in cycle]
    while left:
        steps = []
        number: int | None = _find_start(waits, left)
        while number in left:
            left.remove(number)
            wait = waits.get(number)
            steps.append((transactions[number], wait))
            number = wait.holder.number if wait and wait.holder else None
        chains.append(WaitChain(steps=tuple(steps), closed=False))
    return chains


def _find_cycle(waits: dict[int, Wait], numbers: Sequence[int]) -> list[int]:
    """Return the numbers along the first cycle, starting at the lowest; empty if there is no cycle."""
    for start in numbers:
        path: list[int] = []
        number: int | None = start
        while number is not None and number not in path:
            path.append(number)
            wait = waits.get(number)
            number = wait.holder.number if wait and wait.holder else None
        if number is not None:
            cycle = path[path.index(number) :]
            first = cycle.index(min(cycle))
            return cycle[first:] + cycle[:first]
    return []


def _find_start(waits: dict[int, Wait], numbers: Sequence[int]) -> int:
    """Return the transaction that no other waits for, where a chain begins; if there is none, the first transaction."""
    awaited = {wait.holder.number for number in numbers if (wait := waits.get(number)) and wait.holder}
    return next((number for number in numbers if number not in awaited), numbers[0])
