"""Checks the Python packages of a bench that was installed from a wheel: whether each is there, in a version that the bench allows."""

from __future__ import annotations

from importlib import metadata

_DISTRIBUTION = "stallbench"
_EXTRA = "bench"


def find_unmet_requirements(distribution: str = _DISTRIBUTION) -> list[str]:
    """Return a sentence for each package that ``distribution`` needs and that is missing or has another version, with its extra ``bench``."""
    from packaging.requirements import Requirement  # set-up in a clone runs without it

    unmet = []
    for text in metadata.requires(distribution) or []:
        required = Requirement(text)
        if required.marker is not None and not required.marker.evaluate({"extra": _EXTRA}):
            continue
        try:
            found = metadata.version(required.name)
        except metadata.PackageNotFoundError:
            unmet.append(f"{required.name} is missing")
            continue
        if not required.specifier.contains(found, prereleases=True):
            unmet.append(f"{required.name} is {found}; expected {required.specifier}")
    return unmet
