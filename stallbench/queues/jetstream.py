"""NATS JetStream: a stream from which a message is removed when a worker has acknowledged it, and a consumer that all workers share."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import Field

from stallbench.queues.queue import Backlog, Claim, NewJob, OptionRole, Promise, Queue, QueueOptions

_SUBJECT = "jobs"
_STREAM = "jobs"
_CONSUMER = "workers"
_MOST_AT_ONCE = 1000
"""Messages that the server adds as one."""
_NS = 1_000_000_000
_LATE_S = 1.0
"""The server notices the end of a claim some ten milliseconds late, or later if it is busy."""
_NOTHING_TO_GIVE = ("404", "408")
"""Statuses of an answer without a message: there is none, or none came in time."""


class JetStreamOptions(QueueOptions):
    """What can be chosen about the stream and its consumer."""

    ack_wait_s: Annotated[int, OptionRole.EXPIRY] = Field(
        default=30,
        ge=1,
        alias="ack_wait",
        description="seconds after which a message that was not acknowledged is delivered again",
    )
    max_deliver: Annotated[int, OptionRole.ATTEMPT_LIMIT] = Field(
        default=0,
        ge=0,
        description="deliveries after which a message is not delivered again, and stays in the stream; 0: no limit",
    )
    retry_after_s: int = Field(
        default=1, ge=0, alias="retry_after", description="seconds after which the message of a failed job is delivered again"
    )
    storage: Literal["file", "memory"] = Field(default="file", description="where the server keeps the stream")


class JetStream(Queue[JetStreamOptions]):
    """Publish, fetch one, acknowledge. A job's id is the sequence number of its message in the stream.

    The server does not say which messages are claimed. One that was delivered and is still in the stream counts as claimed until it is delivered again,
    even if its job has failed, or until all claims have expired, because the last delivery was longer ago than that takes.
    """

    kind = "jetstream"
    summary = "asks the server for the next message of a consumer that all workers share, which is theirs until a time has passed"
    source = "NATS' documentation of JetStream: a work-queue stream with a durable pull consumer and explicit acknowledgement"
    engines = frozenset({"nats"})
    options_type = JetStreamOptions
    promise = Promise.AT_LEAST_ONCE
    ordered = True
    claims_survive_connection = True
    shows_failed_as_claimed = True
    tables = (_STREAM,)
    indexes = ()
    jobs_per_load = _MOST_AT_ONCE

    def __init__(self, connection: Any, options: JetStreamOptions) -> None:
        """Serve ``connection``."""
        super().__init__(connection, options)
        self._is_set = False

    def install(self) -> None:
        """Create the stream and its consumer."""
        stream = {
            "name": _STREAM,
            "subjects": [_SUBJECT],
            "retention": "workqueue",
            "storage": self.options.storage,
            "allow_atomic": True,
        }
        self.connection.ask(f"STREAM.CREATE.{_STREAM}", stream)
        self._set_consumer()

    def enqueue(self, jobs: Sequence[NewJob]) -> Sequence[int]:
        """Publish the jobs and wait until the stream has them; several are added as one, with consecutive numbers."""
        ids: list[int] = []
        for begin in range(0, len(jobs), _MOST_AT_ONCE):
            ids += self._publish([job.payload.encode() for job in jobs[begin : begin + _MOST_AT_ONCE]])
        return ids

    def claim(self) -> Sequence[Claim]:
        """Ask for one message; the server answers at once if there is none.

        Before the first one the consumer is set, as workers do when they start: its times may have been changed.
        """
        if not self._is_set:
            self._set_consumer()
        message = self.connection.fetch(_STREAM, _CONSUMER)
        if status := (message.headers or {}).get("Status"):
            if status in _NOTHING_TO_GIVE:
                return []
            from nats.js.errors import APIError

            raise APIError(code=int(status), description=message.headers.get("Description"))
        metadata = message.metadata
        return [
            Claim(
                job_id=metadata.sequence.stream,
                attempt=metadata.num_delivered,
                payload=message.data.decode(),
                handle=message.reply,
            )
        ]

    def complete(self, claim: Claim) -> None:
        """Acknowledge the message and wait until the server has removed it."""
        self.connection.request(claim.handle, b"+ACK")

    def fail(self, claim: Claim, error: str) -> None:
        """Have the message delivered again after a time."""
        self.connection.request(claim.handle, b'-NAK {"delay": %d}' % (self.options.retry_after_s * _NS))

    def recover(self, error: Exception) -> bool:
        """Continue after an error that JetStream has answered; not after an answer that did not come."""
        from nats.js.errors import APIError

        return isinstance(error, APIError)

    def backlog(self) -> Backlog:
        """Count the messages that were never delivered, and the others if all claims have expired."""
        consumer = self._ask_consumer()
        depth = int(consumer["num_pending"]) + (int(consumer["num_ack_pending"]) if self._have_expired(consumer) else 0)
        return Backlog(depth=depth, oldest_job_s=self._age_of_next_s(self._last_claimed(consumer)) if depth else None)

    def is_drained(self) -> bool:
        """Whether the stream is empty."""
        return int(self.connection.ask(f"STREAM.INFO.{_STREAM}")["state"]["messages"]) == 0

    def job_ids(self) -> Iterator[tuple[int, bool]]:
        """List the sequence numbers in the stream: all from its first to its last one, but those of messages that are gone."""
        state = self.connection.ask(f"STREAM.INFO.{_STREAM}", {"deleted_details": True})["state"]
        if not state["messages"]:
            return
        claimed = self._last_claimed(self._ask_consumer())
        gone = set(state.get("deleted") or ())
        for number in range(state["first_seq"], state["last_seq"] + 1):
            if number not in gone:
                yield number, number <= claimed

    def _set_consumer(self) -> None:
        """Create the consumer, or give it the options of this queue."""
        config = {
            "durable_name": _CONSUMER,
            "ack_policy": "explicit",
            "ack_wait": self.options.ack_wait_s * _NS,
            "max_deliver": self.options.max_deliver or -1,
        }
        self.connection.ask(f"CONSUMER.DURABLE.CREATE.{_STREAM}.{_CONSUMER}", {"stream_name": _STREAM, "config": config})
        self._is_set = True

    def _publish(self, payloads: Sequence[bytes]) -> Sequence[int]:
        if len(payloads) == 1:
            return [int(self._read(self.connection.request(_SUBJECT, payloads[0]))["seq"])]
        batch = f"{time.time_ns():x}-{self.random.getrandbits(64):x}"
        *others, last = enumerate(payloads, 1)
        for number, payload in others:
            self.connection.send(_SUBJECT, payload, _place_in(batch, number))
        answer = self._read(self.connection.request(_SUBJECT, last[1], {**_place_in(batch, last[0]), "Nats-Batch-Commit": "1"}))
        newest = int(answer["seq"])
        return range(newest - len(payloads) + 1, newest + 1)

    def _read(self, message: Any) -> dict[str, Any]:
        from stallbench.engines.nats.driver import read_answer

        return read_answer(message)

    def _ask_consumer(self) -> dict[str, Any]:
        consumer: dict[str, Any] = self.connection.ask(f"CONSUMER.INFO.{_STREAM}.{_CONSUMER}")
        return consumer

    def _last_claimed(self, consumer: dict[str, Any]) -> int:
        """Return the highest number of a message that may be claimed."""
        return 0 if self._have_expired(consumer) else int(consumer["delivered"]["stream_seq"])

    def _have_expired(self, consumer: dict[str, Any]) -> bool:
        """Whether every claim has expired, by the server's clock."""
        if not (last := consumer["delivered"].get("last_active")):
            return False
        passed = datetime.fromisoformat(consumer["ts"]) - datetime.fromisoformat(last)
        return passed.total_seconds() > float(consumer["config"]["ack_wait"]) / _NS + _LATE_S

    def _age_of_next_s(self, claimed: int) -> float | None:
        """Return the age of the first message that is not claimed, or that of its successor if it was delivered meanwhile."""
        from nats.js.errors import NotFoundError

        try:
            found = self.connection.ask(f"STREAM.MSG.GET.{_STREAM}", {"seq": claimed + 1, "next_by_subj": _SUBJECT})
        except NotFoundError:
            return None
        return time.time() - datetime.fromisoformat(found["message"]["time"]).timestamp()


def _place_in(batch: str, number: int) -> dict[str, str]:
    return {"Nats-Batch-Id": batch, "Nats-Batch-Sequence": str(number)}
