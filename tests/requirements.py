"""What pip installs for requirements, as far as it is installed here."""

from __future__ import annotations

from collections.abc import Iterable
from importlib.metadata import requires

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name


def list_installed(requirements: Iterable[Requirement], *, extra: str = "") -> set[str]:
    """Return the names of all that pip would install for ``requirements``. ``extra``: of the distribution that has them."""
    found: set[tuple[str, str]] = set()
    waiting = [(each, extra) for each in requirements]
    while waiting:
        requirement, extra_of_parent = waiting.pop()
        if requirement.marker and not requirement.marker.evaluate({"extra": extra_of_parent}):
            continue
        name = canonicalize_name(requirement.name)
        for wanted in ("", *requirement.extras):
            if (name, wanted) not in found:
                found.add((name, wanted))
                waiting += [(Requirement(each), wanted) for each in requires(name) or ()]
    return {name for name, _ in found}
