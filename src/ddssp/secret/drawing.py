"""Noise for many numbers, drawn by several processes: an exact draw takes a core about 20 microseconds.

The other processes are this program again: each reads numbers from a pipe, answers on another, and ends. They draw with OpenDP
from the operating system's randomness like this one. Nothing is written anywhere else, and no process serves two requests, so
no answer can be taken for another's.
"""

from __future__ import annotations

import os
import struct
import subprocess
import sys
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

MANY = 2**15
"""So many draws are worth a second process."""

MOST = 8
"""Processes, at most."""

_HEADER = struct.Struct("<Qd")

Draw = Callable[[NDArray[np.int64], float], NDArray[np.int64]]


def drawn(values: NDArray[np.int64], sigma: float, draw: Draw) -> NDArray[np.int64]:
    """draw(values, sigma), shared among processes if there are many values.

    Edge cases: what a process that cannot be started or fails on the way should have drawn, this one draws.
    """
    if len(values) < MANY:
        return draw(values, sigma)
    own, *others = np.array_split(values, _cores())
    helpers: list[_Helper | None] = []
    try:
        helpers += [_Helper.asked(part, sigma) for part in others]
        parts = [draw(own, sigma)]
        for helper, part in zip(helpers, others, strict=True):
            answer = None if helper is None else helper.answer(len(part))
            parts.append(draw(part, sigma) if answer is None else answer)
        return np.concatenate(parts)
    finally:
        for helper in helpers:
            if helper is not None:
                helper.end()


def _cores() -> int:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(cores, MOST)


class _Helper:
    """A process with one request."""

    def __init__(self) -> None:
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
        # -P: modules in the folder that the program was started in must not get to see exact counts
        command = [sys.executable, "-P", "-c", f"from {__name__} import serve; serve()"]
        pipe = subprocess.PIPE
        # a session of its own: Ctrl-C is for the release, which ends its helpers itself
        self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe, env=environment, start_new_session=True)

    @classmethod
    def asked(cls, values: NDArray[np.int64], sigma: float) -> _Helper | None:
        """A process that draws for these values; None where it cannot be started."""
        try:
            helper = cls()
        except OSError:
            return None
        try:
            assert helper._process.stdin is not None
            helper._process.stdin.write(_HEADER.pack(len(values), sigma) + values.astype(np.int64).tobytes())
            helper._process.stdin.close()
        except OSError:
            helper.end()
            return None
        except BaseException:
            helper.end()
            raise
        return helper

    def answer(self, size: int) -> NDArray[np.int64] | None:
        """What it drew; None if it ended before it had drawn all."""
        assert self._process.stdout is not None
        content = self._process.stdout.read()
        return np.frombuffer(content, np.int64) if len(content) == 8 * size and self._process.wait() == 0 else None

    def end(self) -> None:
        """None; the process is gone."""
        self._process.kill()
        self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()


def serve() -> None:
    """None; answers the request on stdin."""
    from ddssp.secret.noise import draw_here

    size, sigma = _HEADER.unpack(sys.stdin.buffer.read(_HEADER.size))
    values = np.frombuffer(sys.stdin.buffer.read(8 * size), np.int64)
    sys.stdout.buffer.write(draw_here(values, sigma).tobytes())
