"""Files that appear whole or not at all, also when the process is killed while it writes them."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from glob import escape
from pathlib import Path


@contextmanager
def draft(path: Path) -> Iterator[Path]:
    """A temporary file beside `path`, for its owner only (mode 0600), gone on leaving unless it was renamed.

    Guarantees: a draft that a killed process left behind is removed by the next draft of the same file. A draft is locked as
    long as its process lives, and the lock goes with the process.
    """
    _sweep(path)
    handle, name = _locked(path)
    try:
        yield name
    finally:
        name.unlink(missing_ok=True)
        os.close(handle)


def drafted(path: Path) -> bool:
    """Whether a living process has a draft of `path`; those left behind are removed."""
    _sweep(path)
    return any(_drafts(path))


def write(path: Path, content: bytes, *, mode: int = 0o666) -> None:
    """None; `path` holds `content`, on disk, or what it held before; open to whom `mode` and the user's umask let."""
    with draft(path) as temporary:
        with temporary.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, mode & ~_umask())
        os.replace(temporary, path)
        with suppress(OSError):  # the file is whole; not every file system can say more
            sync_folder(path.parent)


def _umask() -> int:
    """The permissions that new files of this process lack; asked by setting it, to the safe side for what threads make then."""
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


def sync_folder(folder: Path) -> None:
    """None; the names in `folder` are on disk."""
    if os.name == "nt":
        return  # Windows has no such call and journals names itself
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _locked(path: Path) -> tuple[int, Path]:
    """A new draft's handle and name; made again should another process sweep it away before it is locked."""
    while True:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=_prefix(path))
        try:
            _lock(handle)
            if os.path.exists(name):
                return handle, Path(name)
        except BlockingIOError:
            pass
        except OSError:  # a file system without locks: nobody there can sweep either
            return handle, Path(name)
        os.close(handle)


def _prefix(path: Path) -> str:
    return f".{path.name}.draft-"


def _drafts(path: Path) -> Iterator[Path]:
    return path.parent.glob(f"{escape(_prefix(path))}????????")


def _sweep(path: Path) -> None:
    """None; removes the drafts of `path` that no living process holds; SQLite's own files beside a draft go with it."""
    for left in _drafts(path):
        with suppress(OSError):
            handle = os.open(left, os.O_RDWR | getattr(os, "O_NOFOLLOW", 0))
            try:
                _lock(handle)
                for name in (f"{left}-wal", f"{left}-shm", f"{left}-journal", left):
                    Path(name).unlink(missing_ok=True)
            finally:
                os.close(handle)


def _lock(handle: int) -> None:
    """None; OSError if another process holds the file."""
    try:
        import fcntl
    except ImportError:  # Windows: an open file cannot be removed there anyway
        return
    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
