"""An installed bench says which Python packages it lacks, and which have a version that it does not allow."""

from __future__ import annotations

from importlib import metadata

import pytest

from stallbench.setup.requirements import find_unmet_requirements


def test_each_package_that_does_not_fit_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    installed = {"fits": "1.5", "too-old": "1.0"}
    needed = [
        "fits>=1.2",
        "too-old>=2,<3",
        "not-there[extra]>=1",
        "of-an-extra; extra == 'more'",
        "elsewhere; sys_platform == 'win32'",
    ]

    def version(name: str) -> str:
        if name not in installed:
            raise metadata.PackageNotFoundError(name)
        return installed[name]

    monkeypatch.setattr(metadata, "requires", lambda _: needed)
    monkeypatch.setattr(metadata, "version", version)
    assert find_unmet_requirements() == ["too-old is 1.0; expected <3,>=2", "not-there is missing"]


def test_a_distribution_that_needs_nothing_lacks_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metadata, "requires", lambda _: None)
    assert find_unmet_requirements() == []
