"""The code of an error that an adapter in Python reports to the bench.

Standard library only, like `stallbench_contract`.
"""

OF_CONNECTION = {"OperationalError", "InterfaceError", "ConnectionError"}
"""Base classes of errors by which a driver reports, without a code, that the connection is gone or cannot be opened: PEP 249, and Python's own."""


def code_of(error):
    """Return the code of the driver's error that a library has wrapped: an SQLSTATE, a number of MariaDB or MySQL, or SQLite's name.

    Without a code: the class of the outermost error that is one of a connection by its base class, else the class of ``error``.
    """
    chain = [error]
    while (wrapped := chain[-1].__cause__ or chain[-1].__context__) is not None and wrapped not in chain:
        chain.append(wrapped)
    first = [each.args[0] for each in chain if type(each).__module__.startswith("pymysql.") and each.args]
    numbers = [number for number in first if isinstance(number, int)]
    states = [
        getattr(each, "sqlstate", None) or getattr(each, "pgcode", None) or getattr(each, "sqlite_errorname", None)
        for each in chain
    ]
    of_connection = [type(each).__name__ for each in chain if {base.__name__ for base in type(each).__mro__} & OF_CONNECTION]
    return str(next(filter(None, [*numbers, *states, *of_connection]), type(error).__name__))
