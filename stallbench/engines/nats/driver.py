"""NATS, through nats-py, whose client is asynchronous: its event loop runs during each call, and no longer."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Coroutine, Mapping
from contextlib import suppress
from typing import Any, TypeVar

from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription
from nats.errors import Error
from nats.js.errors import APIError

from stallbench.engines.driver import CONNECT_TIMEOUT_S, SAMPLING_TIMEOUT_S, Driver
from stallbench.records.endpoint import Endpoint

_ANSWER_S = 5.0
"""Time limit for an answer of the server: nats-py's own for JetStream."""
_CLOSE_S = 1.0
_API = "$JS.API."

ResultT = TypeVar("ResultT")


class ConnectionLostError(Exception):
    """The connection could not be opened, or was lost."""


class NatsConnection:
    """A connection whose calls wait for the answer. It does not reconnect by itself: that is the policy of the queue's client."""

    def __init__(self, endpoint: Endpoint, name: str, answer_s: float) -> None:
        """Connect; raises `ConnectionLostError`, or nats-py's errors if the server refuses."""
        self._answer_s = answer_s
        self._loop = asyncio.new_event_loop()
        self._client = Client()
        self._answers: Subscription | None = None
        self._closed: asyncio.Future[None] = self._loop.create_future()
        try:
            self._loop.run_until_complete(asyncio.wait_for(self._connect(endpoint, name), CONNECT_TIMEOUT_S))
        except (TimeoutError, OSError) as error:
            self.close()
            raise ConnectionLostError(str(error) or f"no answer within {CONNECT_TIMEOUT_S} s") from error
        except BaseException:
            self.close()
            raise

    @property
    def is_closed(self) -> bool:
        """Whether it is closed, or known to be lost."""
        return self._loop.is_closed() or self._client.is_closed

    @property
    def largest_message_bytes(self) -> int:
        """What the server takes in one message."""
        return self._client.max_payload

    def send(self, subject: str, payload: bytes, headers: Mapping[str, str]) -> None:
        """Send a message that has no answer."""
        self._run(self._client.publish(subject, payload, headers=dict(headers)))

    def request(self, subject: str, payload: bytes, headers: Mapping[str, str] | None = None) -> Msg:
        """Send a message and return the answer."""
        return self._run(self._client.request(subject, payload, self._answer_s, headers=dict(headers) if headers else None))

    def fetch(self, stream: str, consumer: str) -> Msg:
        """Ask a consumer for one message, and return it, or at once an answer with a ``Status`` in its headers if there is none.

        The message keeps its own subject, by which nats-py could not find the request. So the answers have a subscription of their own; one that comes
        after the time limit is the next call's: a message that was delivered is not lost.
        """
        return self._run(self._fetch(f"{_API}CONSUMER.MSG.NEXT.{stream}.{consumer}"))

    async def _fetch(self, subject: str) -> Msg:
        if self._answers is None:
            self._answers = await self._client.subscribe(self._client.new_inbox())
        await self._client.publish(subject, b'{"batch": 1, "no_wait": true}', reply=self._answers.subject)
        return await self._answers.next_msg(self._answer_s)

    def ask(self, call: str, document: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Call JetStream's API, like ``STREAM.INFO.jobs``, and return its answer; raises nats-py's `APIError` if it is an error."""
        return read_answer(self.request(_API + call, json.dumps(document).encode() if document else b""))

    def abort(self) -> None:
        """Shut its socket down; a call in another thread then ends with `ConnectionLostError`."""
        writer = getattr(self._client._transport, "_io_writer", None)
        if writer is not None:
            with suppress(OSError):
                writer.get_extra_info("socket").shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Close it in any state."""
        if self._loop.is_closed():
            return
        with suppress(Error, OSError, asyncio.TimeoutError):
            self._loop.run_until_complete(asyncio.wait_for(self._client.close(), _CLOSE_S))
        self._loop.run_until_complete(_end_other_tasks())
        self._loop.close()

    async def _connect(self, endpoint: Endpoint, name: str) -> None:
        async def note_end() -> None:
            if not self._closed.done():
                self._closed.set_result(None)

        async def ignore(_: Exception) -> None:
            """Do nothing: what a call needs to know of an error it is told by its own."""

        await self._client.connect(
            f"nats://{endpoint.host}:{endpoint.port}",
            name=f"stallbench:{name}",
            user=endpoint.user,
            password=endpoint.password.get_secret_value(),
            allow_reconnect=False,
            connect_timeout=CONNECT_TIMEOUT_S,
            closed_cb=note_end,
            error_cb=ignore,
        )

    def _run(self, call: Coroutine[Any, Any, ResultT]) -> ResultT:
        """Run the event loop until ``call`` is done; raises `ConnectionLostError` as soon as the connection is lost, which nats-py's calls do not."""
        if self.is_closed:
            call.close()
            self.close()
            raise ConnectionLostError("the connection is closed")

        async def run() -> ResultT:
            task = asyncio.ensure_future(call)
            either: set[asyncio.Future[Any]] = {task, self._closed}
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            if not task.done():
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
                raise ConnectionLostError(str(self._client.last_error or "the server closed the connection"))
            return task.result()

        try:
            return self._loop.run_until_complete(run())
        except ConnectionLostError:
            self.close()
            raise
        except Error:  # nats-py's time-out is an OSError, too
            raise
        except OSError as error:
            raise ConnectionLostError(str(error)) from error


async def _end_other_tasks() -> None:
    left = asyncio.all_tasks() - {asyncio.current_task()}
    for task in left:
        task.cancel()
    await asyncio.gather(*left, return_exceptions=True)


def read_answer(message: Msg) -> dict[str, Any]:
    """Return an answer of JetStream; raises nats-py's `APIError` if it is an error."""
    answer: dict[str, Any] = json.loads(message.data)
    if "error" in answer:
        APIError.from_error(answer["error"])
    return answer


class NatsDriver(Driver):
    """One connection for each client."""

    errors = (Error, ConnectionLostError)
    yields_to_greenlets = False

    def connect(self, endpoint: Endpoint, name: str) -> NatsConnection:
        """Connect; raises `ConnectionLostError` when the server cannot be reached."""
        return NatsConnection(endpoint, name, _ANSWER_S)

    def connect_for_sampling(self, endpoint: Endpoint, name: str) -> NatsConnection:
        """Connect with the time limit of samples for every answer."""
        return NatsConnection(endpoint, name, SAMPLING_TIMEOUT_S)

    def is_closed(self, connection: NatsConnection) -> bool:
        """Whether it is closed, or known to be lost."""
        return connection.is_closed

    def abort(self, connection: NatsConnection) -> None:
        """Shut its socket down."""
        connection.abort()

    def console(self, endpoint: Endpoint) -> str:
        """Return a command with the program ``nats``."""
        password = endpoint.password.get_secret_value()
        return f"NATS_PASSWORD={password} nats --server nats://{endpoint.host}:{endpoint.port} --user {endpoint.user} stream info"

    def code(self, error: Exception) -> str:
        """Return JetStream's number of the error, like ``10047``, or the name of its class."""
        return str(getattr(error, "err_code", None) or super().code(error))

    def describe(self, error: Exception) -> str:
        """Return JetStream's own words for the error, if it has any."""
        return super().describe(Error(words)) if (words := getattr(error, "description", None)) else super().describe(error)


DRIVER = NatsDriver()
