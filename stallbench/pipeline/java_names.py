"""Remembers the Java functions that PySpark calls by name, so that Java is not asked for them again at each call.

Whenever PySpark makes a column or a list, it asks Java for a class and then for the function in it. For a class whose name comes without its
package, Java looks through all of Spark's libraries. For a small run, a third of all messages between Python and Java were such questions.
"""

from __future__ import annotations

from typing import Any

from py4j.java_gateway import JavaClass, JavaMember
from pyspark.sql import SparkSession

_SQL = "org.apache.spark.sql"
_CLASSES = {
    "functions": f"{_SQL}.functions",
    f"{_SQL}.functions": f"{_SQL}.functions",
    f"{_SQL}.expressions.Window": f"{_SQL}.expressions.Window",
    "PythonUtils": "org.apache.spark.api.python.PythonUtils",
    "PythonSQLUtils": f"{_SQL}.api.python.PythonSQLUtils",
}
"""The classes by the names that PySpark gives them."""


class _KnownClass(JavaClass):  # type: ignore[misc] # it carries no types
    """A Java class whose functions are asked for once."""

    def __getattr__(self, name: str) -> Any:
        member = super().__getattr__(name)
        if isinstance(member, JavaMember):  # it only has the name of a function, and no state
            self.__dict__[name] = member
        return member


def remember_names(spark: SparkSession) -> None:
    """Let PySpark find the classes that it calls most without asking Java, as long as the Java process of ``spark`` runs."""
    java, gateway = spark.sparkContext._jvm, spark.sparkContext._gateway
    assert java is not None
    assert gateway is not None
    for name, full_name in _CLASSES.items():
        setattr(java, name, _KnownClass(full_name, gateway._gateway_client))
