"""No value of a statement of somebody else is left in what is shown or recorded of it."""

from __future__ import annotations

import pytest

from stallbench.engines.innodb.literals import LITERALS as INNODB_LITERALS
from stallbench.engines.postgres.literals import LITERALS as POSTGRES_LITERALS
from stallbench.sql_literals import LiteralSyntax, hide_literals

POSTGRES = [
    "SELECT 'SECRET'",
    "SELECT 'it''s SECRET', 1",
    r"SELECT E'\'SECRET'",
    r"SELECT 'a\', 'SECRET'",
    "SELECT $$SECRET$$, $tag$ SECRET $$ SECRET $tag$",
    r"SELECT 'it\'s a SECRET', 1",
    r"SELECT 'C:\' WHERE a = 'SECRET'",
    r"SELECT N'it\\\'s a SECRET', 1",
    r"SELECT '\\', 'SECRET'",
    "SELECT U&'SECRET' UESCAPE '!'",
    "SELECT X'5ECRE7', B'1'",
    "SELECT 1 /* SECRET /* SECRET */ SECRET */ -- SECRET",
    "SELECT 1 -- SECRET 'quote\n, 'SECRET'",
    "UPDATE cards SET number = 'SECRET",
    "SELECT $tag$ SECRET",
    "SELECT /* SECRET",
    r"SELECT E'SECRET\\"[:-1],
    "INSERT INTO t VALUES (5353, -5353.5353, 5353e5, 0x5353, .5353)",
]
INNODB = [
    'SELECT "SECRET"',
    r"SELECT 'a\', SECRET'",
    r'SELECT "a\", SECRET"',
    r"SELECT 'C:\', 'SECRET'",
    r'SELECT "C:\", "SECRET"',
    "SELECT _utf8mb4'SECRET', N'SECRET', 0x5353",
    "SELECT 1 # SECRET 'quote\n, 'SECRET'",
    "SELECT 1 /* SECRET */ , 'SECRET",
]


@pytest.mark.parametrize(
    ("syntax", "statement"), [*((POSTGRES_LITERALS, each) for each in POSTGRES), *((INNODB_LITERALS, each) for each in INNODB)]
)
def test_no_value_is_left(syntax: LiteralSyntax, statement: str) -> None:
    hidden = hide_literals(statement, syntax)
    assert "SECRET" not in hidden
    assert "5ECRE7" not in hidden
    assert "5353" not in hidden


def test_what_follows_a_string_that_does_not_depend_on_the_meaning_of_a_backslash_stays() -> None:
    assert (
        hide_literals(r"SELECT n FROM t WHERE a LIKE 'x\_%' AND b = 'C:\\' AND c = $1", POSTGRES_LITERALS)
        == "SELECT n FROM t WHERE a LIKE ? AND b = ? AND c = $1"
    )
    assert hide_literals(r"""SELECT n FROM t WHERE a = 'C:\\' AND b = "it""s\\" AND c = 'x\n' LIMIT n""", INNODB_LITERALS) == (
        "SELECT n FROM t WHERE a = ? AND b = ? AND c = ? LIMIT n"
    )


def test_names_and_parameters_stay() -> None:
    assert hide_literals('SELECT t1.a2, "Card 5" FROM s3.t1 WHERE id = $1 AND n = 7', POSTGRES_LITERALS) == (
        'SELECT t1.a2, "Card 5" FROM s3.t1 WHERE id = $1 AND n = ?'
    )
    assert hide_literals("SELECT `a 5` FROM t1 WHERE id = 5", INNODB_LITERALS) == "SELECT `a 5` FROM t1 WHERE id = ?"
