"""What Spark says when it fails, put into one line."""

from __future__ import annotations

from py4j.protocol import Py4JJavaError


def explain(error: Exception) -> str:
    """Say in one line what Spark failed on; only while its Java process lives, for that is who knows."""
    message = str(error)
    if isinstance(error, Py4JJavaError):
        cause = error.java_exception
        while cause.getCause() is not None:
            cause = cause.getCause()
        message = f"{cause.getClass().getSimpleName()}: {cause.getMessage()}"
    return next((line.strip() for line in message.splitlines() if line.strip()), type(error).__name__)
