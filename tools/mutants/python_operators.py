"""The mistakes that are made in a queue's operations, on the syntax tree; what is not changed keeps its text."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import NamedTuple

from tools.mutants.edit import Edit, OperatorList

_OF_SERVER = frozenset({"execute", "insert", "copy", "run", "load", "begin", "commit", "rollback", "stream", "execute_at_once"})
"""Methods that send something to the server."""
_ROW_COUNTS = frozenset({"command_tuples", "ntuples", "rows", "affected"})


class Shape(NamedTuple):
    """What two statements have in common that can be sent for each other."""

    verb: str
    """The first word."""
    parameters: int
    """How many there are."""


class Module:
    """A module's text and tree, with its functions."""

    def __init__(self, text: str, statements: Mapping[str, Shape]) -> None:
        """Parse the text. ``statements``: the shape of each of the queue's statements, by its name."""
        self.text = text
        self.statements = statements
        self.tree = ast.parse(text)
        self._line_starts = [0]
        for line in text.splitlines(keepends=True):
            self._line_starts.append(self._line_starts[-1] + len(line))
        self._lines = text.splitlines()

    def functions(self) -> Iterator[ast.FunctionDef]:
        """Yield the methods of its classes."""
        for each in ast.walk(self.tree):
            if isinstance(each, ast.ClassDef):
                yield from (member for member in each.body if isinstance(member, ast.FunctionDef))

    def nodes(self) -> Iterator[ast.AST]:
        """Yield what is in them."""
        for function in self.functions():
            for each in function.body:
                yield from ast.walk(each)

    def blocks(self) -> Iterator[tuple[ast.FunctionDef, list[ast.stmt]]]:
        """Yield each sequence of statements, with its function."""
        for function in self.functions():
            for node in ast.walk(function):
                for name in ("body", "orelse", "finalbody"):
                    block = getattr(node, name, None)
                    if isinstance(block, list) and block and isinstance(block[0], ast.stmt):
                        yield function, block

    def span(self, node: ast.AST) -> tuple[int, int]:
        """Return where a node begins and ends in the text."""
        assert isinstance(node, ast.expr | ast.stmt)
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        return self._offset(node.lineno, node.col_offset), self._offset(node.end_lineno, node.end_col_offset)

    def _offset(self, line: int, column: int) -> int:
        """Return the place of a column, which the tree counts in bytes."""
        return self._line_starts[line - 1] + len(self._lines[line - 1].encode()[:column].decode())

    def read(self, node: ast.AST) -> str:
        """Return the text of a node."""
        start, end = self.span(node)
        return self.text[start:end]

    def put(self, node: ast.AST, text: str) -> Edit:
        """Return a change of a node's text."""
        return Edit(*self.span(node), text)

    def indent(self, node: ast.stmt) -> str:
        """Return the spaces before a statement."""
        return " " * node.col_offset


PYTHON_OPERATORS: OperatorList[Module] = OperatorList()
"""Every operator, in the order of the page."""


def _calls_server(node: ast.AST) -> bool:
    return any(
        isinstance(each, ast.Call) and isinstance(each.func, ast.Attribute) and each.func.attr in _OF_SERVER
        for each in ast.walk(node)
    )


def _is_step(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)


@PYTHON_OPERATORS.add("drop step", "leaves out a call: a commit, a release, a statement")
def drop_step(module: Module) -> Iterator[Edit]:
    """Each statement that is only a call."""
    for function, block in module.blocks():
        for each in block:
            if _is_step(each) and not module.read(each).startswith("super().__init__") and function.name != "__init__":
                yield module.put(each, "pass")


@PYTHON_OPERATORS.add("repeat step", "sends a statement again without looking whether it was carried out")
def repeat_step(module: Module) -> Iterator[Edit]:
    """Each statement that calls the server: retried blindly."""
    for function, block in module.blocks():
        for each in block:
            if not isinstance(each, ast.Expr | ast.Assign | ast.Return) or not _calls_server(each) or each.value is None:
                continue
            if function.name == "install" or not isinstance(each.value, ast.Call):
                continue
            yield module.put(each, f"{module.read(each.value)}\n{module.indent(each)}{module.read(each)}")


@PYTHON_OPERATORS.add("swap steps", "does two steps in the wrong order")
def swap_steps(module: Module) -> Iterator[Edit]:
    """Neighbours that are only calls."""
    for _, block in module.blocks():
        for one, other in pairwise(block):
            if _is_step(one) and _is_step(other):
                between = module.text[module.span(one)[1] : module.span(other)[0]]
                yield Edit(module.span(one)[0], module.span(other)[1], f"{module.read(other)}{between}{module.read(one)}")


@PYTHON_OPERATORS.add("commit early", "commits before the last statement of a transaction")
def commit_early(module: Module) -> Iterator[Edit]:
    """A commit is added after each statement but the commit itself, in a class that has transactions."""
    commit = next((one for one in ('self.execute("commit")', "self.session.commit()") if one in module.text), None)
    if commit is None:
        return
    for function, block in module.blocks():
        for each, after in zip(block, [*block[1:], None], strict=True):
            text = module.read(each)
            if function.name == "install" or not isinstance(each, ast.Expr | ast.Assign) or not _calls_server(each):
                continue
            if text == commit or (after is not None and module.read(after) == commit):
                continue
            yield module.put(each, f"{text}\n{module.indent(each)}{commit}")


@PYTHON_OPERATORS.add("commit for rollback", "commits what should be rolled back, or the reverse")
def commit_for_rollback(module: Module) -> Iterator[Edit]:
    """Where the queue names its statements, and where it calls the session."""
    swapped = {"commit": "rollback", "rollback": "commit"}
    for each in module.nodes():
        if not isinstance(each, ast.Call) or not isinstance(each.func, ast.Attribute):
            continue
        if each.func.attr in swapped:
            yield module.put(each, module.read(each).replace(f".{each.func.attr}(", f".{swapped[each.func.attr]}("))
        elif (
            each.args
            and isinstance(each.args[0], ast.Constant)
            and each.args[0].value == "commit"
            and "rollback" in module.statements
        ):
            yield module.put(each.args[0], '"rollback"')
        elif each.args and isinstance(each.args[0], ast.Constant) and each.args[0].value == "rollback":
            yield module.put(each.args[0], '"commit"')


@PYTHON_OPERATORS.add("ignore row count", "does not look how many rows a statement has found or changed")
def ignore_row_count(module: Module) -> Iterator[Edit]:
    """A condition on it is never true."""
    for each in module.nodes():
        if isinstance(each, ast.If | ast.IfExp) and any(
            isinstance(part, ast.Attribute) and part.attr in _ROW_COUNTS for part in ast.walk(each.test)
        ):
            yield module.put(each.test, f"({module.read(each.test)}) and False")


@PYTHON_OPERATORS.add("negate condition", "does a thing in the wrong case")
def negate_condition(module: Module) -> Iterator[Edit]:
    """Each condition of an ``if``, and of an expression."""
    for each in module.nodes():
        if isinstance(each, ast.If | ast.IfExp):
            yield module.put(each.test, f"not ({module.read(each.test)})")


@PYTHON_OPERATORS.add("always", "does a thing in every case, or each time instead of from time to time")
def always(module: Module) -> Iterator[Edit]:
    """The condition of an ``if`` is always true, or never."""
    for each in module.nodes():
        if isinstance(each, ast.If):
            yield module.put(each.test, "True")
            yield module.put(each.test, "False")


@PYTHON_OPERATORS.add("drop operand", "leaves out a part of a condition")
def drop_operand(module: Module) -> Iterator[Edit]:
    """Each operand of ``and`` and ``or``."""
    for each in module.nodes():
        if isinstance(each, ast.BoolOp):
            for left_out in range(len(each.values)):
                kept = [module.read(value) for at, value in enumerate(each.values) if at != left_out]
                word = " and " if isinstance(each.op, ast.And) else " or "
                yield module.put(each, f"({word.join(kept)})")


@PYTHON_OPERATORS.add("forget reset", "does not keep what the next call has to know")
def forget_reset(module: Module) -> Iterator[Edit]:
    """An assignment to an attribute, except where the object is made."""
    for function in module.functions():
        if function.name == "__init__":
            continue
        for each in ast.walk(function):
            if isinstance(each, ast.Assign) and isinstance(each.targets[0], ast.Attribute):
                kept = module.read(each.value)
                yield module.put(each, kept if _calls_server(each.value) else "pass")


@PYTHON_OPERATORS.add("wrong sum", "counts wrongly by one, or forgets to add a time")
def wrong_sum(module: Module) -> Iterator[Edit]:
    """``a + b`` becomes ``a``, and ``a + 1`` also ``a - 1``."""
    for each in module.nodes():
        if isinstance(each, ast.BinOp) and isinstance(each.op, ast.Add | ast.Sub):
            yield module.put(each, module.read(each.left))
            sign = "-" if isinstance(each.op, ast.Add) else "+"
            yield module.put(each, f"{module.read(each.left)} {sign} {module.read(each.right)}")


@PYTHON_OPERATORS.add("wrong comparison", "compares with > instead of >=, or the wrong way round")
def wrong_comparison(module: Module) -> Iterator[Edit]:
    """Each comparison with one operator."""
    swapped: Mapping[type[ast.cmpop], tuple[str, ...]] = {
        ast.GtE: (">", "<"),
        ast.Gt: (">=", "<="),
        ast.LtE: ("<", ">"),
        ast.Lt: ("<=", ">="),
        ast.Eq: ("!=",),
        ast.NotEq: ("==",),
    }
    for each in module.nodes():
        if isinstance(each, ast.Compare) and len(each.ops) == 1 and type(each.ops[0]) in swapped:
            for sign in swapped[type(each.ops[0])]:
                yield module.put(each, f"{module.read(each.left)} {sign} {module.read(each.comparators[0])}")


@PYTHON_OPERATORS.add("return nothing", "returns nothing although there is something")
def return_nothing(module: Module) -> Iterator[Edit]:
    """Each list that a function returns, after what it calls."""
    for each in module.nodes():
        if isinstance(each, ast.Return) and isinstance(each.value, ast.List) and each.value.elts:
            yield module.put(each.value, "[]")


@PYTHON_OPERATORS.add("swap arguments", "passes the key of a job, or two values, in the wrong order")
def swap_arguments(module: Module) -> Iterator[Edit]:
    """A starred argument is reversed; two positional ones after a statement's name change places."""
    for each in module.nodes():
        if not isinstance(each, ast.Call) or not _calls_server(each):
            continue
        for argument in each.args:
            if isinstance(argument, ast.Starred):
                yield module.put(argument.value, f"{module.read(argument.value)}[::-1]")
        for one, other in pairwise(each.args[1:]):
            between = module.text[module.span(one)[1] : module.span(other)[0]]
            if isinstance(one, ast.Starred) == isinstance(other, ast.Starred):
                yield Edit(module.span(one)[0], module.span(other)[1], f"{module.read(other)}{between}{module.read(one)}")


@PYTHON_OPERATORS.add("swallow error", "does not raise, or does nothing about an error")
def swallow_error(module: Module) -> Iterator[Edit]:
    """Each ``raise``, and the body of each ``except``."""
    for each in module.nodes():
        if isinstance(each, ast.Raise):
            yield module.put(each, "pass")
        elif isinstance(each, ast.ExceptHandler) and not isinstance(each.body[0], ast.Raise):
            yield Edit(module.span(each.body[0])[0], module.span(each.body[-1])[1], "pass")


@PYTHON_OPERATORS.add("other statement", "sends another statement of the same file")
def other_statement(module: Module) -> Iterator[Edit]:
    """The next one that begins with the same word and has as many parameters."""
    names = list(module.statements)
    for each in module.nodes():
        if isinstance(each, ast.Constant) and isinstance(each.value, str) and each.value in module.statements:
            at = names.index(each.value)
            likes = [name for name in names[at + 1 :] + names[:at] if module.statements[name] == module.statements[each.value]]
            if likes and module.statements[each.value].verb in ("SELECT", "INSERT", "UPDATE", "DELETE", "WITH"):
                yield module.put(each, f'"{likes[0]}"')


@PYTHON_OPERATORS.add("wrong element", "takes the last element for the first, or the reverse")
def wrong_element(module: Module) -> Iterator[Edit]:
    """``[0]`` and ``[-1]``; ``popleft`` and ``pop``; ``append`` and ``appendleft``."""
    swapped = {"popleft": "pop", "append": "appendleft"}
    for each in module.nodes():
        if isinstance(each, ast.Subscript) and module.read(each.slice) in ("0", "-1"):
            yield module.put(each.slice, "-1" if module.read(each.slice) == "0" else "0")
        elif isinstance(each, ast.Attribute) and each.attr in swapped and "deque" in module.text:
            yield module.put(each, f"{module.read(each.value)}.{swapped[each.attr]}")


@PYTHON_OPERATORS.add("stop after first", "handles only the first of several")
def stop_after_first(module: Module) -> Iterator[Edit]:
    """A loop ends after its first round; a list that is made of jobs has one."""
    for each in module.nodes():
        if isinstance(each, ast.For | ast.While):
            last = each.body[-1]
            if not isinstance(last, ast.Return | ast.Raise | ast.Break):
                end = module.span(last)[1]
                yield Edit(end, end, f"\n{module.indent(last)}break")
        elif isinstance(each, ast.comprehension) and module.read(each.iter) == "jobs":
            yield module.put(each.iter, "jobs[:1]")


@PYTHON_OPERATORS.add("wrong constant", "flips a truth value, or takes a number that is greater by one")
def wrong_constant(module: Module) -> Iterator[Edit]:
    """Not indexes and columns, which would only end in an error at once, nor ``strict=True``, which looks for mistakes of the author."""
    left_out = set()
    for each in module.nodes():
        is_read = isinstance(each, ast.Call) and isinstance(each.func, ast.Name) and each.func.id.startswith("read_")
        if is_read or (isinstance(each, ast.keyword) and each.arg == "strict"):
            left_out |= {id(part) for part in ast.walk(each)}
        elif isinstance(each, ast.Subscript):
            left_out |= {id(part) for part in ast.walk(each.slice)}
    for each in module.nodes():
        if not isinstance(each, ast.Constant) or id(each) in left_out:
            continue
        if isinstance(each.value, bool):
            yield module.put(each, str(not each.value))
        elif isinstance(each.value, int):
            yield module.put(each, str(each.value + 1))
