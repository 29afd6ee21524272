"""Noise for many numbers, drawn by several processes: an exact draw takes a core about 20 microseconds.

The other processes are this program again, reading numbers from a pipe and answering on another; they draw with OpenDP from the
operating system's randomness like this one, and end with it. Nothing is written anywhere else.
"""

from __future__ import annotations

import os
import struct
import subprocess
import sys
from collections.abc import Callable
from functools import cache

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

    Edge cases: where no process can be started, this one draws all. One that fails on the way raises OSError; what it drew is
    not used.
    """
    helpers = _helpers(os.getpid()) if len(values) >= MANY else ()
    own, *others = np.array_split(values, len(helpers) + 1)
    for helper, part in zip(helpers, others, strict=True):
        helper.ask(part, sigma)
    first = draw(own, sigma)
    return np.concatenate([first, *(helper.answer(len(part)) for helper, part in zip(helpers, others, strict=True))])


class _Helper:
    def __init__(self) -> None:
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
        # -P: modules in the folder that the program was started in must not get to see exact counts
        command = [sys.executable, "-P", "-c", f"from {__name__} import serve; serve()"]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment)

    def ask(self, values: NDArray[np.int64], sigma: float) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(_HEADER.pack(len(values), sigma) + values.astype(np.int64).tobytes())
        self._process.stdin.flush()

    def answer(self, size: int) -> NDArray[np.int64]:
        assert self._process.stdout is not None
        content = self._process.stdout.read(8 * size)
        if len(content) != 8 * size:
            raise OSError("a process that draws noise has ended; nothing of what it drew was used.")
        return np.frombuffer(content, np.int64)


@cache
def _helpers(_process: int) -> tuple[_Helper, ...]:
    """One for every core but the one that asks; they belong to the process with that number, not to its forks."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    try:
        return tuple(_Helper() for _ in range(min(cores, MOST) - 1))
    except OSError:
        return ()


def serve() -> None:
    """None; answers requests on stdin until it ends."""
    from ddssp.secret.noise import draw_here

    while len(header := sys.stdin.buffer.read(_HEADER.size)) == _HEADER.size:
        size, sigma = _HEADER.unpack(header)
        values = np.frombuffer(sys.stdin.buffer.read(8 * size), np.int64)
        sys.stdout.buffer.write(draw_here(values, sigma).tobytes())
        sys.stdout.buffer.flush()
