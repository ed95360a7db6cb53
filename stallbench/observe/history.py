"""A bounded history of readings in a folder: what `stallbench observe --record` writes and `--at` reads.

A reading is a line of JSON (`stallbench.observe.document`). The lines of about an hour are a segment: a gzip stream to which each reading is added by one
``write`` and flushed, so that a recorder that is killed at any moment leaves whole lines, which every reader finds. When a segment is over it is
*sealed*: the stream gets its end, with a checksum that readers check, and its final name. The oldest segments are removed.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import TracebackType
from typing import Self

from pydantic import ValidationError

from stallbench.base.storage.private import open_trusted
from stallbench.errors import NotCarriedOutError
from stallbench.observe.document import ReadingDocument

_SEGMENT_S = 3600
_SEGMENTS = 16
"""A segment is over earlier if it has this part of all bytes that may be kept, so that little is removed at once."""
_STAMP = "%Y%m%dT%H%M%SZ"
_SEALED, _OPEN = ".jsonl.gz", ".jsonl.gz.open"
_NAME = re.compile(r"(\d{8}T\d{6}Z)(\.jsonl\.gz(?:\.open)?)", re.ASCII)
_LOCK = "lock"
_GZIP = 31
"""For zlib: a stream with the header and the checksum of gzip."""
_MOST_BYTES = 1 << 30
"""Of a segment's text: more is not of a recorder."""
_LONGEST_LINE_BYTES = 16 << 20
_PART_BYTES = 1 << 20
_AT = re.compile(rb'\{"format":1,"at":"([^"]{1,40})"')


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryBounds:
    """How much of a history is kept."""

    folder: Path
    keep_s: float
    keep_bytes: int


@dataclass(frozen=True, slots=True)
class _Segment:
    """A file of a history, and when its first reading was."""

    path: Path
    start: datetime

    @property
    def is_sealed(self) -> bool:
        return self.path.name.endswith(_SEALED)


class HistoryWriter:
    """Adds readings to a history, and removes the oldest. One process at a time may do it."""

    def __init__(self, bounds: HistoryBounds) -> None:
        """Make the folder if it is not there, and seal what a recorder that was killed has left.

        Raises `NotCarriedOutError` if others may read the folder or another process writes there, `UntrustedError` if another user could change it.
        """
        self._bounds = bounds
        folder = bounds.folder
        try:
            folder.mkdir(mode=0o700, exist_ok=True)
            with open_trusted(folder) as opened:
                mode = os.fstat(opened.fd).st_mode & 0o777
            if mode & 0o077:
                raise NotCarriedOutError(f"{folder}: other users may enter it (mode {mode:o}); expected `chmod 700 {folder}`")
            self._lock = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise _cannot(folder, error) from error
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self._lock)
            raise NotCarriedOutError(f"{folder}: another process records there; choose another folder for this one") from None
        try:
            _seal_what_was_left(folder)
            self._sealed = {one: one.path.stat().st_size for one in _list_segments(folder)}
        except OSError as error:
            raise _cannot(folder, error) from error
        self._open: _OpenSegment | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self._seal()
        os.close(self._lock)

    def append(self, document: ReadingDocument) -> None:
        """Add a reading. Raises `NotCarriedOutError` if it cannot be written; what is there stays readable."""
        try:
            if self._open is not None and self._is_over(self._open, document.at):
                self._seal()
            if self._open is None:
                self._open = _OpenSegment(self._bounds.folder, self._next_start(document.at), document.at)
            self._open.append(document.model_dump_json().encode() + b"\n")
            self._remove_oldest(document.at)
        except OSError as error:
            raise _cannot(self._bounds.folder, error) from error

    def _is_over(self, segment: _OpenSegment, at: datetime) -> bool:
        age_s = (at - segment.first_at).total_seconds()
        return not 0 <= age_s < _SEGMENT_S or segment.bytes >= self._bounds.keep_bytes / _SEGMENTS

    def _next_start(self, at: datetime) -> datetime:
        """Return the start of a new segment: of its first reading, but later than all others, whatever the clock does."""
        latest = max((one.start for one in self._sealed), default=None)
        start = at.replace(microsecond=0)
        return start if latest is None or start > latest else latest + timedelta(seconds=1)

    def _seal(self) -> None:
        if self._open is not None:
            sealed = self._open.seal()
            self._sealed[sealed] = sealed.path.stat().st_size
            self._open = None

    def _remove_oldest(self, now: datetime) -> None:
        assert self._open is not None, "a reading was added to it"
        oldest_first = sorted(self._sealed, key=lambda one: one.start)
        starts = [*(one.start for one in oldest_first), self._open.start]
        for segment, end in zip(oldest_first, starts[1:], strict=True):
            is_old = (now - end).total_seconds() > self._bounds.keep_s
            if not is_old and sum(self._sealed.values()) + self._open.bytes <= self._bounds.keep_bytes:
                return
            segment.path.unlink(missing_ok=True)
            del self._sealed[segment]


class _OpenSegment:
    """The segment to which readings are added."""

    def __init__(self, folder: Path, start: datetime, first_at: datetime) -> None:
        self.start, self.first_at = start, first_at
        self.bytes = 0
        self._path = folder / f"{start.strftime(_STAMP)}{_OPEN}"
        self._stream = zlib.compressobj(wbits=_GZIP)
        self._fd = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)

    def append(self, line: bytes) -> None:
        self._write(self._stream.compress(line) + self._stream.flush(zlib.Z_SYNC_FLUSH))

    def seal(self) -> _Segment:
        """End the stream, and give the file its final name when it is on the disk."""
        self._write(self._stream.flush(zlib.Z_FINISH))
        os.fsync(self._fd)
        os.close(self._fd)
        sealed = self._path.with_name(self._path.name.removesuffix(_OPEN) + _SEALED)
        self._path.rename(sealed)
        return _Segment(sealed, self.start)

    def _write(self, data: bytes) -> None:
        """Write all of it, or nothing: a part would make what follows unreadable."""
        written = os.write(self._fd, data)
        if written < len(data):
            os.ftruncate(self._fd, self.bytes)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self.bytes += written


def _seal_what_was_left(folder: Path) -> None:
    """Seal the segments of recorders that were killed, of which the last line may be missing."""
    for segment in [one for one in _list_segments(folder) if not one.is_sealed]:
        sealed = segment.path.with_name(segment.path.name.removesuffix(_OPEN) + _SEALED)
        beside = segment.path.with_name(f".{sealed.name}")
        stream = zlib.compressobj(wbits=_GZIP)
        with os.fdopen(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600), "wb") as file:
            is_empty = True
            for line in _decompress(segment):
                is_empty = False
                file.write(stream.compress(line + b"\n"))
            file.write(stream.flush())
            file.flush()
            os.fsync(file.fileno())
        if is_empty:
            beside.unlink()
        else:
            beside.rename(sealed)
        segment.path.unlink()


@dataclass(frozen=True, slots=True, kw_only=True)
class PastReading:
    """What was read at a time, or last before it."""

    line: str
    """As it was recorded."""
    document: ReadingDocument
    next_at: datetime | None
    """When the reading after it was; none if there is none."""


def find_reading(folder: Path, at: datetime) -> PastReading:
    """Return the last reading that began at ``at`` or before. Raises `NotCarriedOutError` if there is none, or if the history cannot be read."""
    try:
        with open_trusted(folder.resolve()):
            segments = _list_segments(folder)
    except OSError as error:
        raise _cannot(folder, error) from error
    if not segments:
        raise NotCarriedOutError(f"{folder}: no reading was recorded there; expected a folder of `stallbench observe --record`")
    for number in reversed(range(len(segments))):
        segment = segments[number]
        if segment.start > at:
            continue
        latest: bytes | None = None
        next_at: datetime | None = None
        for line in _read_lines(segment):
            time = _read_time(line, segment.path)
            if time <= at:
                latest, next_at = line, None
            elif next_at is None:
                next_at = time
        if latest is not None:
            following = next_at or next((one.start for one in segments[number + 1 :]), None)
            return PastReading(line=latest.decode(), document=_read_document(latest, segment.path), next_at=following)
    first = segments[0].start
    raise NotCarriedOutError(
        f"{folder}: nothing was recorded before {first:%Y-%m-%d %H:%M:%S} UTC; ask for that time or a later one"
    )


def _list_segments(folder: Path) -> list[_Segment]:
    """Return the segments in a folder, the oldest first. One that was sealed while its recorder was killed is there once."""
    found: dict[datetime, _Segment] = {}
    for path in sorted(folder.iterdir(), reverse=True):
        start = _read_start(path.name)
        if start is not None and path.is_file() and not path.is_symlink():
            found[start] = _Segment(path, start)  # the sealed one comes later in this order
    return sorted(found.values(), key=lambda one: one.start)


def _read_start(name: str) -> datetime | None:
    """Return when the segment of this name begins; none if it is no segment's."""
    match = _NAME.fullmatch(name)
    try:
        return datetime.strptime(match[1], _STAMP).replace(tzinfo=UTC) if match else None
    except ValueError:  # a month 99
        return None


def _read_lines(segment: _Segment) -> Iterator[bytes]:
    try:
        yield from _decompress(segment)
    except OSError as error:
        raise _cannot(segment.path, error) from error


def _decompress(segment: _Segment) -> Iterator[bytes]:
    """Yield the whole lines of a segment, without their ends. Raises `NotCarriedOutError` if it is damaged, `OSError`.

    A few kilobytes can hold gigabytes, so no more than a line and a part of the text is in memory.
    """
    stream = zlib.decompressobj(wbits=_GZIP)
    rest, size = b"", 0
    with segment.path.open("rb") as file:
        while not stream.eof:
            packed = stream.unconsumed_tail or file.read(_PART_BYTES)
            try:
                text = stream.decompress(packed, _PART_BYTES)
            except zlib.error as error:
                raise NotCarriedOutError(f"{segment.path}: is damaged: {error}") from None
            if not packed and not text:
                break
            size += len(text)
            if size >= _MOST_BYTES:
                raise NotCarriedOutError(f"{segment.path}: has more text than an hour of readings")
            *lines, rest = (rest + text).split(b"\n")
            yield from lines
            if len(rest) > _LONGEST_LINE_BYTES:
                raise NotCarriedOutError(f"{segment.path}: has a line that is longer than a reading")
    if segment.is_sealed and not stream.eof:
        raise NotCarriedOutError(f"{segment.path}: is damaged: it is sealed, and its end is missing")


def _read_time(line: bytes, path: Path) -> datetime:
    match = _AT.match(line)
    try:
        at = datetime.fromisoformat(match[1].decode()) if match else None
    except ValueError:
        at = None
    if at is None or at.tzinfo is None:
        raise NotCarriedOutError(f"{path}: has a line that is no reading of this version")
    return at


def _read_document(line: bytes, path: Path) -> ReadingDocument:
    try:
        return ReadingDocument.model_validate_json(line)
    except ValidationError as error:
        issue = error.errors(include_input=False, include_url=False)[0]
        key = ".".join(str(part) for part in issue["loc"])
        raise NotCarriedOutError(f"{path}: has a line that is no reading of this version: {key}: {issue['msg']}") from None


def _cannot(path: Path, error: OSError) -> NotCarriedOutError:
    return NotCarriedOutError(f"{error.filename or path}: {error.strerror or error}")
