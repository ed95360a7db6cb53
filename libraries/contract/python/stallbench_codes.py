"""The code of an error that an adapter in Python reports to the bench.

Standard library only, like `stallbench_contract`.
"""

OF_CONNECTION = {"OperationalError", "InterfaceError"}
"""Base classes of errors by which a driver reports, without a code, that the connection is gone or cannot be opened: PEP 249."""

DRIVERS = {"aiomysql", "asyncpg", "MySQLdb", "mysql", "pg8000", "psycopg", "psycopg2", "psycopg_pool", "pymysql"}
"""Packages that connect to a database; some let errors of the network pass that are Python's own, like `ConnectionRefusedError`."""

OF_DATABASES = DRIVERS | {"sqlalchemy"}
"""Packages whose own classes are errors of the database, also without a base class of PEP 249, like that of a pool without a free connection."""


def code_of(error):
    """Return the code of the driver's error that a library has wrapped: an SQLSTATE, a number of MariaDB or MySQL, or SQLite's name.

    Without a code: the class of the outermost error that is one of the database's connection. Else the class of ``error``, with its module: an
    application's own call, of a web service for example, raises errors of the same names.
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
    of_connection = [type(each).__name__ for each in chain if is_of_connection(each)]
    return str(next(filter(None, [*numbers, *states, *of_connection]), name_of(error)))


def is_of_connection(error):
    """Whether an error says that the connection to the database is gone or cannot be opened."""
    if isinstance(error, OSError):
        return has_passed_driver(error)
    return bool({base.__name__ for base in type(error).__mro__} & OF_CONNECTION)


def has_passed_driver(error):
    """Whether a driver raised the error, or called what raised it."""
    step = error.__traceback__
    while step is not None:
        if package_of(step.tb_frame.f_globals.get("__name__", "")) in DRIVERS:
            return True
        step = step.tb_next
    return False


def name_of(error):
    """Return the class of an error, with its module unless that says nothing: of the database's packages, and of Python itself."""
    module, name = type(error).__module__, type(error).__name__
    is_plain = package_of(module) in OF_DATABASES or (module == "builtins" and not isinstance(error, OSError))
    return name if is_plain else f"{module}.{name}"


def package_of(module):
    """Return the package of a module by the module's name."""
    return module.partition(".")[0]
