"""A run's folder that somebody else has made cannot control the terminal, change a page, or give a command that does something else when it is pasted."""

from __future__ import annotations

import json
import os
import subprocess
import xml.etree.ElementTree as ET
from html.parser import HTMLParser
from pathlib import Path

import pandas as pd
import pytest
from markdown_it import MarkdownIt
from markdown_it.token import Token
from typer.testing import CliRunner

from stallbench import PROJECT
from stallbench.cli import app
from stallbench.report import make_report
from stallbench.report.markdown import escape_markdown, format_code
from stallbench.report.terminal import print_verdict
from stallbench.scenario.command import format_run_command
from stallbench.scenario.file import read_scenario
from stallbench.shell_command import format_shell_command
from stallbench.studies.comparison.report import format_command
from stallbench.studies.soak.plan import format_command as format_soak_command
from stallbench.verdicts import judge
from tests.security.hidden import find_hidden
from tests.unit.made_up_comparison import make_made_up_record
from tests.unit.made_up_run import EMPTY, make_fault, make_record, make_run

HOSTILE = (
    "\x1b]52;c;eA==\x07\x1b[2J\u202e\u200b\r\n\n# x\n~~~\n```\n[red]x[/red] [link=http://evil.test]x[/link] [x](javascript:alert(1)) "
    "![x](http://evil.test/x.png) | a | b <img src=x onerror=alert(1)> </script><script>alert(1)</script> &#x202e; \\"
)
WORDS = [
    "x; touch owned",
    "$(touch owned)",
    "`touch owned`",
    "'\"; touch owned #",
    "a\ntouch owned\n",
    "\x1b[2Kx\u202e\u200b' \\ $x\r",
    "\udcff",
    "~/x",
    "-x",
    "",
    "*",
    "``` `` `",
]


def read_words(command: str, folder: Path) -> list[str]:
    """Paste a command into bash, in a folder with a program ``stallbench`` that writes its arguments down; nothing else may happen in the folder."""
    programs, there = folder / "programs", folder / "there"
    for each in (programs, there):
        each.mkdir(exist_ok=True)
    arguments = folder / "arguments"
    arguments.unlink(missing_ok=True)
    program = programs / "stallbench"
    program.write_text(f"#!/bin/sh\nprintf '%s\\0' \"$@\" >{arguments}\n")
    program.chmod(0o755)
    ended = subprocess.run(
        ["bash", "-c", command],
        cwd=there,
        env={"PATH": f"{programs}:{os.environ['PATH']}", "LC_ALL": "C"},
        capture_output=True,
        check=False,
    )
    assert (ended.returncode, ended.stderr, list(there.iterdir())) == (0, b"", []), command
    return arguments.read_bytes().decode(errors="surrogateescape").split("\0")[:-1]


def test_a_shell_reads_each_word_as_it_was(tmp_path: Path) -> None:
    command = format_shell_command(["stallbench", *WORDS])
    assert find_hidden(command, allowed="") == []
    assert read_words(command, tmp_path) == WORDS


@pytest.mark.parametrize("word", [word for word in WORDS if word != "\udcff"])
def test_a_command_of_a_record_does_only_what_it_says(word: str, tmp_path: Path) -> None:
    forged = read_scenario("longtx").model_copy(update={"file": word, "variant": word, "changes": (word, word)})
    file = f"./{word}" if word.startswith("-") else word
    chosen = ["--variant", word] if word else []
    changes = ["--set", word, "--set", word]
    assert read_words(format_run_command(forged), tmp_path) == ["run", file, *chosen, *changes]
    soak = read_words(format_soak_command(forged, 60.0, 1), tmp_path)
    assert soak == ["soak", file, *chosen, *changes, "--for", "1m", "--keep", "1"]
    named = forged.model_copy(update={"name": word, "file": f"scenarios/{word}.toml", "variant": ""})
    called = f"./scenarios/{word}.toml" if word.startswith("-") else word
    assert read_words(format_run_command(named), tmp_path) == ["run", called, *changes]


def test_the_command_of_a_comparison_does_only_what_it_says(tmp_path: Path) -> None:
    _, record = make_made_up_record({"control": [1.0], "skip_locked": [1.0]}, tmp_path / "runs")
    forged = record.scenario.model_copy(update={"file": WORDS[0], "variant": WORDS[1], "changes": (WORDS[2],)})
    compared = record.model_copy(update={"scenario": forged, "versions": ""})
    words = read_words(format_command(compared), tmp_path)
    assert words[:4] == ["compare", WORDS[0], "--variants", "control,skip_locked"]
    assert WORDS[2] in words
    words = read_words(format_command(compared.model_copy(update={"versions": WORDS[3]})), tmp_path)
    assert words[:6] == ["matrix", WORDS[0], "--variant", WORDS[1], "--versions", WORDS[3]]


def parse(markdown: str) -> list[Token]:
    """Return what a parser of Markdown finds, with what is inside of lines."""
    tokens = MarkdownIt("commonmark").enable("table").parse(markdown)
    return [part for token in tokens for part in (token, *(token.children or ()))]


def test_text_in_markdown_is_text() -> None:
    tokens = parse(
        f"| a | b |\n|---|---|\n| {escape_markdown(HOSTILE)} | second |\n\n{escape_markdown(HOSTILE)}\n\n- {escape_markdown(HOSTILE)}\n"
    )
    kinds = {token.type for token in tokens}
    assert kinds.isdisjoint(
        {"html_inline", "html_block", "link_open", "image", "fence", "code_block", "code_inline", "heading_open"}
    )
    assert [token.content for token in tokens if token.type == "inline" and token.content == "second"] == ["second"]
    assert sum(token.type == "td_open" for token in tokens) == 2
    shown = "".join(token.content for token in tokens if token.type in ("text", "text_special"))
    assert find_hidden(shown, allowed="") == []
    assert shown.count(r"\x1b]52;c;eA==\x07\x1b[2J\u202e\u200b") == 3


@pytest.mark.parametrize("text", [*WORDS[:5], *WORDS[7:9], *WORDS[10:], "a``b", "`", "ends ``"])
def test_code_in_markdown_is_copied_as_it_is(text: str) -> None:
    command = format_shell_command(["stallbench", text])
    (code,) = [token for token in parse(f"x {format_code(command)} y") if token.type == "code_inline"]
    assert code.content == command


class Page(HTMLParser):
    """What a page executes or loads."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.scripts: list[str] = []
        self.active: list[tuple[str, str, str | None]] = []
        self._within = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._within = tag
        if tag == "script":
            self.scripts.append("")
        self.active += [
            (tag, name, value) for name, value in attrs if name.startswith("on") or name in ("src", "href", "srcdoc", "action")
        ]

    def handle_endtag(self, tag: str) -> None:
        self._within = ""

    def handle_data(self, data: str) -> None:
        if self._within == "script":
            self.scripts[-1] += data


def make_pages(folder: Path, text: str) -> Page:
    """Make the pages of a run in whose folder everything that can be a text is ``text``; return its page; print its verdict."""
    folder.mkdir()
    record = make_record(notes=[text], injections=[make_fault("longtx") | {"name": text, "evidence": {"toxic": text}}])
    record["id"] = text
    record["scenario"] |= {"file": text, "summary": text, "changes": [text]}
    record["queue"] |= {"kind": text, "summary": text, "source": text, "tables": [text]}
    record["host"] |= {"cpu_model": text}
    errors = pd.DataFrame([["longtx", "longtx", text, "error", text, "claim", [], 1]], columns=EMPTY["errors"])
    run = make_run(folder, record, errors=errors)
    verdict = judge(run)
    page = Page(make_report(run, verdict).read_text())
    print_verdict(verdict, run.record, text)
    return page


def test_the_pages_of_a_forged_run_are_those_of_any_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    harmless = make_pages(tmp_path / "harmless", "x")
    page = make_pages(tmp_path / "forged", HOSTILE)
    assert page.active == harmless.active
    assert len(page.scripts) == len(harmless.scripts)
    assert [text for text in page.scripts if "uPlot" in text] == [text for text in harmless.scripts if "uPlot" in text]
    written = {name: (tmp_path / "forged" / name) for name in ("report.html", "summary.md", "junit.xml")}
    for path in written.values():
        assert find_hidden(path.read_text(), allowed="\n\t") == [], path.name
    assert find_hidden(capsys.readouterr().out) == []
    ET.parse(written["junit.xml"])
    kinds = {token.type for token in parse(written["summary.md"].read_text())}
    assert kinds.isdisjoint({"html_inline", "html_block", "link_open", "image", "fence", "code_block"})


def test_a_forged_scenario_is_shown_without_control_characters(tmp_path: Path) -> None:
    lines = (PROJECT / "scenarios" / "longtx.toml").read_text().splitlines()
    place = next(number for number, line in enumerate(lines) if line.startswith("summary = "))
    lines[place] = f"summary = {json.dumps(HOSTILE)}"
    file = tmp_path / "forged.toml"
    file.write_text("\n".join(lines))
    shown = CliRunner().invoke(app, ["show", str(file)])
    assert shown.exit_code != 0
    assert find_hidden(f"{shown.output}{shown.exception}") == []
