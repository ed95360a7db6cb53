"""The address of a database: the part of every process's JSON document that names the server."""

from __future__ import annotations

import re

from pydantic import BaseModel, ConfigDict, Field, SecretStr

PASSWORD_VARIABLE = "STALLBENCH_PASSWORD"  # noqa: S105 - the variable's name, not a password
"""Environment variable with the password of servers that the bench has not started."""
_HAS_PASSWORD = re.compile(r"://[^/@]*:[^@]*@")


def has_password(address: str) -> bool:
    """Whether an address has a password, also one that makes it unreadable, because it contains a slash. The message of a parser may repeat a part."""
    return _HAS_PASSWORD.search(address) is not None


class Endpoint(BaseModel):
    """Address and credentials of one database on one server, either behind its proxy or direct."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    engine: str
    host: str
    port: int
    database: str
    user: str
    prepared_statements: bool = Field(default=True, description="whether clients prepare statements by name, where queues do")
    proxy_host: str = Field(
        default="",
        description="where to connect to instead of `host`: a proxy in front of the server, whose certificate is for `host`",
    )
    parameters: dict[str, str] = Field(
        default={}, description="what the user's address and libpq's environment say about the connection, as of encryption"
    )
    second: Endpoint | None = Field(default=None, description="the server beside it, for queues that need two")
    password: SecretStr = Field(default=SecretStr(""), description="never printed: `str` and `repr` show asterisks")

    @property
    def reached_at(self) -> str:
        """The host to connect to: that of the proxy, if there is one, or of the server."""
        return self.proxy_host or self.host

    def with_password(self) -> dict[str, object]:
        """Return the document with the password readable, for a process's standard input and nothing else."""
        second = self.second.with_password() if self.second else None
        return {**self.model_dump(), "second": second, "password": self.password.get_secret_value()}
