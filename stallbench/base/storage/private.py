"""Private folders, and files that can be trusted: what no other user of the machine can have made, changed or replaced.

A name in a folder like ``/tmp`` says nothing about who made what has it. So what the bench acts on (a journal, a record, instructions, a kept
program) is opened without following links, and the opened file is checked, not its path: its type, its owner, who else may write to it, and
whether each folder above it can be changed by somebody else. Root may change everything anyway, and is trusted where that is said.

Imports the standard library only: set-up runs before the virtual environment exists.
"""

from __future__ import annotations

import grp
import os
import pwd
import stat
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from stallbench.errors import NotCarriedOutError

_ROOT = 0
_FILE = {stat.S_IFREG}
_FOLDER = {stat.S_IFDIR}
_OPEN_FOLDER = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_OPEN_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
"""A pipe that nobody writes to would be waited for without end, before it is seen to be no file."""


class UntrustedError(NotCarriedOutError):
    """Another user of the machine could have made or changed it; the message says what was found, and what is expected."""


@dataclass(frozen=True, slots=True)
class Trust:
    """Whose files are trusted."""

    root: bool = False
    """Whether root's are, too: programs, and what describes work. What a user's own process left behind is never root's."""
    group: int | None = None
    """Number of a group whose members are trusted, too, if their user has said so."""
    owners: frozenset[int] = frozenset()
    """Numbers of further users who are trusted."""
    allows_links: bool = False
    """Whether a file may have several names, as installers give it: only its content matters, which no other user can change by another name."""

    def find_objection(self, found: os.stat_result, *, is_above: bool = False, is_link: bool = False) -> str | None:
        """Return why a file or folder is not trusted, to follow its path; none if it is. ``is_above``: it contains what is to be trusted, or leads to it.

        ``is_link``: it is a link, whose mode means nothing.
        """
        if not self._is_trusted_owner(found, or_root=self.root or is_above):
            return f"belongs to {_name_user(found.st_uid)}; expected {self._describe_owners()}"
        if is_link or (is_above and found.st_mode & stat.S_ISVTX):
            return None  # what it contains can be replaced by its owner alone, which is looked at as well
        if found.st_mode & stat.S_IWOTH:
            return "can be written by every user; expected `chmod o-w`"
        if found.st_mode & stat.S_IWGRP and found.st_gid != self.group and _others_in(found.st_gid, found.st_uid):
            return f"can be written by the group {_name_group(found.st_gid)}; expected `chmod g-w`"
        return None

    def _is_trusted_owner(self, found: os.stat_result, *, or_root: bool) -> bool:
        if found.st_uid == os.geteuid() or (or_root and found.st_uid == _ROOT) or found.st_uid in self.owners:
            return True
        return self.group is not None and _is_member(found.st_uid, self.group, found.st_gid)

    def _describe_owners(self) -> str:
        trusted = dict.fromkeys([os.geteuid(), *([_ROOT] if self.root else []), *sorted(self.owners)])
        owners = [_name_user(uid) for uid in trusted]
        return " or ".join([*owners, *([f"a member of the group {_name_group(self.group)}"] if self.group is not None else [])])


OWN = Trust()
"""Only what belongs to the user who runs the bench."""
OWN_OR_ROOT = Trust(root=True)
"""Also what root has made: programs, and files that tell a process what to do."""
PROGRAMS = Trust(root=True, owners=frozenset({Path(__file__).stat().st_uid}), allows_links=True)
"""Also what the owner of the bench's own code has installed, who decides anyway what the bench does."""


@dataclass(frozen=True, slots=True)
class TrustedFolder:
    """An open folder that was checked; it stays the same folder, whatever happens to its path."""

    path: Path
    trust: Trust
    fd: int

    def read(self, name: str) -> bytes | None:
        """Return the content of a file in it; none if there is no such file. Raises `UntrustedError` unless it is trusted, `OSError`."""
        try:
            fd = os.open(name, _OPEN_FILE, dir_fd=self.fd)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise _refused(self.path / name, error) from error
        with os.fdopen(fd, "rb") as file:
            _require(self.trust, self.path / name, os.fstat(fd), _FILE)
            return file.read()

    def replace(self, name: str, text: str, *, mode: int) -> None:
        """Replace the content of a file in it, or make the file; a link of that name is replaced as well. Raises `OSError`; nothing is changed then.

        ``mode``: of the new file, whatever the umask is; a reader never sees another one.
        """
        temporary = f".{name}.{os.getpid()}"
        self.remove(temporary)  # of a process that had this id and was killed
        fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=self.fd)
        try:
            with os.fdopen(fd, "w") as file:
                os.fchmod(fd, mode)
                file.write(text)
                file.flush()
                os.fsync(fd)
            os.rename(temporary, name, src_dir_fd=self.fd, dst_dir_fd=self.fd)
        except BaseException as error:
            self.remove(temporary)
            if isinstance(error, OSError):
                error.filename = str(self.path / name)
            raise

    def remove(self, name: str) -> None:
        """Remove a file in it, if there is one."""
        try:
            os.unlink(name, dir_fd=self.fd)
        except FileNotFoundError:
            return


@contextmanager
def open_trusted(folder: Path, trust: Trust = OWN, *, is_shared: bool = False) -> Iterator[TrustedFolder]:
    """Open a folder for the block; raises `UntrustedError` unless it and every folder above it are trusted, `FileNotFoundError` without it.

    A link to a folder is not trusted; those above it are followed. ``is_shared``: others may make files in it, but replace only their own.
    """
    fd = _open_folder(folder, trust, is_above=is_shared)
    try:
        yield TrustedFolder(folder, trust, fd)
    finally:
        os.close(fd)


def read_trusted(path: Path, trust: Trust = OWN) -> bytes | None:
    """Return the content of a file; none if there is none. Raises `UntrustedError` unless it and every folder above it are trusted, `OSError`."""
    try:
        with open_trusted(path.parent.resolve(), trust) as folder:
            return folder.read(path.name)
    except FileNotFoundError:
        return None


def require_trusted(path: Path, trust: Trust = OWN_OR_ROOT) -> None:
    """Raise `UntrustedError` unless a file or folder, links to it included, and every folder above it are trusted, `OSError` if it cannot be found.

    Nobody else can then replace it later either, so it can be used by its path.
    """
    real = path.resolve(strict=True)
    _require_trusted_links(path.absolute(), trust)
    parent = _open_folder(real.parent, trust, is_above=True) if real.parent != real else os.open("/", _OPEN_FOLDER)
    try:
        _require(trust, real, os.stat(real.name or ".", dir_fd=parent, follow_symlinks=False), _FILE | _FOLDER)
    finally:
        os.close(parent)


def _require_trusted_links(path: Path, trust: Trust) -> None:
    """Raise `UntrustedError` if another user can replace a link by which the path leads to its file: its owner, or who may write beside it."""
    for each in (*reversed(path.parents), path):
        if each.is_symlink():
            if objection := trust.find_objection(each.lstat(), is_above=True, is_link=True):
                raise UntrustedError(f"{each}: {objection}")
            os.close(_open_folder(each.parent.resolve(strict=True), trust, is_above=True))
            _require_trusted_links(each.parent / each.readlink(), trust)


def is_trusted(path: Path, trust: Trust = OWN_OR_ROOT) -> bool:
    """Whether a file or folder is there, and `require_trusted` would raise nothing."""
    try:
        require_trusted(path, trust)
    except (OSError, UntrustedError):
        return False
    return True


def require_own_file(fd: int, path: Path) -> None:
    """Raise `UntrustedError` unless an open file is a file of this user, under one name only: not one to which somebody has made a link."""
    _require(OWN, path, os.fstat(fd), _FILE)


def require_own_folder(folder: Path, *, group: int | None = None, ignored: Collection[Path] = ()) -> None:
    """Raise `UntrustedError` if another user can put something into a folder or into one below it, or can replace the folder; `OSError` without it.

    Trusted are this user, root, and the owner of the bench's code; of the folders above also the owner of the one that contains it, as of a volume or a
    workspace in a container; of all but the folder itself the members of ``group``. ``ignored``: as `require_plain` has it.
    """
    owners = PROGRAMS.owners
    above = Trust(root=True, group=group, owners=owners | {folder.parent.stat().st_uid})
    os.close(_open_folder(folder.parent.resolve(strict=True), above, is_above=True))
    found = folder.lstat()
    _require(Trust(root=True, owners=owners), folder, found, _FOLDER)
    if found.st_mode & (stat.S_IRWXG | stat.S_IRWXO):  # else nobody else gets to what it contains
        require_plain(folder, ignored=ignored, trust=Trust(root=True, group=group, owners=owners))


def require_plain(folder: Path, *, ignored: Collection[Path] = (), trust: Trust | None = None) -> None:
    """Raise `UntrustedError` if anything below a folder is neither a file nor a folder, or cannot be listed; none of it is followed or opened.

    An archive or a repository can contain links and pipes: by the path of a link a file elsewhere is read or written, and a pipe is waited for.
    ``ignored``: paths that may be links, because nothing is read or written by them. ``trust``: whose the folders must be, too.
    """
    unseen = [folder]
    while unseen:
        path = unseen.pop()
        try:
            with os.scandir(path) as entries:
                found = list(entries)
        except FileNotFoundError:
            continue  # a run in progress removes folders and files
        except OSError as error:
            raise UntrustedError(f"{path}: {error.strerror}; expected a folder that this user can read") from error
        for entry in found:
            try:
                status = entry.stat(follow_symlinks=False)
            except FileNotFoundError:
                continue
            mode = status.st_mode
            if stat.S_ISDIR(mode):
                if trust and (objection := trust.find_objection(status)):
                    raise UntrustedError(f"{entry.path}: {objection}")
                unseen.append(Path(entry.path))
            elif not stat.S_ISREG(mode) and Path(entry.path) not in ignored:
                kind = "a link" if stat.S_ISLNK(mode) else "a pipe, a socket or a device"
                raise UntrustedError(f"{entry.path}: is {kind}; expected only files and folders in {folder}: remove it")


def require_trusted_link(link: Path) -> None:
    """Raise `UntrustedError` if a path is a link of another user; the owner of the folder that contains it is trusted, as by the kernel, and root."""
    found = link.lstat()
    trust = Trust(root=True, owners=frozenset({link.absolute().parent.stat().st_uid}))
    if stat.S_ISLNK(found.st_mode) and (objection := trust.find_objection(found, is_link=True)):
        raise UntrustedError(f"{link}: is a link that {objection}; name the folder to which it leads")


def find_group(name: str) -> int:
    """Return the number of a group; raises `KeyError` if there is none of that name."""
    return grp.getgrnam(name).gr_gid


def _open_folder(folder: Path, trust: Trust, *, is_above: bool = False) -> int:
    """Open each folder from the root on, the next in the one before, so that none can be exchanged in between.

    ``is_above``: the folder is not what is to be trusted, but contains it.
    """
    absolute = folder.parent.resolve(strict=True) / folder.name
    fd = os.open("/", _OPEN_FOLDER)
    try:
        for depth in range(1, len(absolute.parts)):
            _require(trust, Path(*absolute.parts[:depth]), os.fstat(fd), _FOLDER, is_above=True)
            try:
                inner = os.open(absolute.parts[depth], _OPEN_FOLDER, dir_fd=fd)
            except FileNotFoundError:
                raise
            except OSError as error:
                raise _refused(Path(*absolute.parts[: depth + 1]), error) from error
            os.close(fd)
            fd = inner
        _require(trust, absolute, os.fstat(fd), _FOLDER, is_above=is_above)
    except BaseException:
        os.close(fd)
        raise
    return fd


def _require(trust: Trust, path: Path, found: os.stat_result, kinds: set[int], *, is_above: bool = False) -> None:
    if stat.S_IFMT(found.st_mode) not in kinds:
        raise UntrustedError(f"{path}: is no {'file' if kinds == _FILE else 'folder'}")
    if objection := trust.find_objection(found, is_above=is_above):
        raise UntrustedError(f"{path}: {objection}")
    if kinds == _FILE and found.st_nlink != 1 and not trust.allows_links:
        raise UntrustedError(f"{path}: has {found.st_nlink} names; expected a file to which nobody has made another link")


def _refused(path: Path, error: OSError) -> UntrustedError:
    return UntrustedError(f"{path}: {error.strerror}; expected a file or folder of this user, and no link")


def _is_member(uid: int, gid: int, gid_of_file: int) -> bool:
    """Whether a user belongs to a group. A user without an entry, as in another container, does if the file belongs to that group."""
    try:
        entry = pwd.getpwuid(uid)
    except KeyError:
        return gid_of_file == gid
    return gid in os.getgrouplist(entry.pw_name, entry.pw_gid)


def _others_in(gid: int, owner: int) -> bool:
    """Whether a group has members besides the owner of a file and root: many systems give each user a group of its own."""
    harmless = {_ROOT, owner}
    if any(entry.pw_gid == gid and entry.pw_uid not in harmless for entry in pwd.getpwall()):
        return True
    try:
        members = grp.getgrgid(gid).gr_mem
    except KeyError:
        return False
    names = {entry.pw_name for entry in pwd.getpwall() if entry.pw_uid in harmless}
    return any(member not in names for member in members)


def _name_user(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"user {uid}"


def _name_group(gid: int) -> str:
    try:
        return grp.getgrgid(gid).gr_name
    except KeyError:
        return str(gid)
