"""``--help`` of each command: what it does, its exit codes, and examples that can be copied, each on a line of its own."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator

import pytest
import typer
from typer.testing import CliRunner

import stallbench
from stallbench.cli import app

pytestmark = pytest.mark.slow


def find_commands(
    group: typer.Typer = app, path: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], Callable[..., object]]]:
    """Yield the words and the function of each command, and of each group that is a command of its own."""
    for command in group.registered_commands:
        assert command.callback is not None
        yield (*path, command.name or command.callback.__name__), command.callback
    for inner in group.registered_groups:
        assert inner.typer_instance is not None
        assert inner.name is not None
        if (callback := inner.typer_instance.registered_callback) and callback.callback:
            yield (*path, inner.name), callback.callback
        yield from find_commands(inner.typer_instance, (*path, inner.name))


COMMANDS = dict(find_commands())


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_each_example_is_a_line_that_can_be_copied(words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "250")
    _, found, examples = inspect.cleandoc(COMMANDS[words].__doc__ or "").partition("For example:\n")
    assert found
    printed = [line.strip() for line in CliRunner().invoke(app, [*words, "--help"]).output.splitlines()]
    wanted = [line.strip() for line in examples.splitlines() if line.strip()]
    assert [line for line in wanted if line not in printed] == []
    assert all(line.startswith("stallbench ") for line in wanted)


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_it_says_what_each_exit_code_means(words: tuple[str, ...]) -> None:
    _, _, codes = inspect.cleandoc(COMMANDS[words].__doc__ or "").partition("\n\nExit codes: 0 ")
    assert codes or words == ("libraries",)  # without a command it only prints its list


def test_the_version_is_printed() -> None:
    assert CliRunner().invoke(app, ["--version"]).output == f"stallbench {stallbench.__version__}\n"
