"""A section that a subject returns is shown in lines that nothing in it can break."""

from __future__ import annotations

from stallbench.observe.diagnostic import Finding, NotVisible, Section, Severity
from stallbench.observe.innodb.rights import quote_account
from stallbench.visible_text import read_text


def test_a_statement_whose_name_cannot_be_written_says_that_it_cannot_be_copied() -> None:
    user = read_text("rea\u202eder@%")
    finding = Finding(
        severity=Severity.NOTE, subject="x", about="a", sentence="a\nb", statement=f"DROP USER {quote_account(user)};"
    )
    not_visible = NotVisible(what="x", why="y", remedy=f"GRANT PROCESS ON *.* TO {quote_account('reader@%')};")
    section = Section(title="t", findings=(finding,), not_visible=(not_visible,), rows=(("a\x1b", "b"),)).in_lines()
    (shown,) = section.findings
    assert shown.statement.startswith(r"DROP USER 'rea\u202eder'@'%'; (not to be copied: ")
    assert shown.sentence == r"a\x0ab"
    assert section.not_visible == (not_visible,)
    assert section.rows == ((r"a\x1b", "b"),)
