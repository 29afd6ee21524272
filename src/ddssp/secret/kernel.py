"""The kernel: codes of a chunk of rows → increments of all pair tables, in numpy and, where numba is installed, compiled.

Both are given the same and add the same. The limit is one increment for each pair and row, with codes read from the cache. The
time to load and compile is spent only on passes that are long enough to earn it back.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from itertools import combinations, pairwise
from typing import Any, cast
from warnings import warn

import numpy as np
from numpy.typing import NDArray

STEP = 2**14
"""Rows that numpy handles at once: their codes, 8 bytes each, stay in the cache."""

EARNED = 2**27
"""Increments from which on compiling pays."""

Codes = NDArray[np.uint8] | NDArray[np.uint16]


@dataclass(frozen=True, kw_only=True, eq=False)
class Pairs:
    """All pairs j < k of columns with these numbers of levels, and where each pair's table begins in one long vector."""

    sizes: NDArray[np.int64]
    left: NDArray[np.int64]
    right: NDArray[np.int64]
    start: NDArray[np.int64]

    @classmethod
    def of(cls, sizes: Sequence[int]) -> Pairs:
        pairs = np.array(list(combinations(range(len(sizes)), 2)), np.int64).reshape(-1, 2)
        m = np.array(sizes, np.int64)
        cells = m[pairs[:, 0]] * m[pairs[:, 1]]
        return cls(sizes=m, left=pairs[:, 0], right=pairs[:, 1], start=np.concatenate([[0], np.cumsum(cells)]))

    @property
    def cells(self) -> int:
        return int(self.start[-1])

    def codes(self, rows: int) -> Codes:
        """ "d rows", to be filled: the smallest integers that hold all codes."""
        shape = (len(self.sizes), rows)
        return np.empty(shape, np.uint8) if max(self.sizes, default=0) <= 2**8 else np.empty(shape, np.uint16)


Tallying = Callable[[Codes, Pairs, NDArray[np.int64]], None]
"""Adds 1 to a cell of each pair's table for each row."""


def tallied(codes: Codes, pairs: Pairs, tables: NDArray[np.int64]) -> None:
    """None; numpy's increments."""
    for first in range(0, codes.shape[1], STEP):
        part = codes[:, first : first + STEP].astype(np.intp)
        for j, k, start, end in zip(pairs.left, pairs.right, pairs.start[:-1], pairs.start[1:], strict=True):
            cells = part[j] * pairs.sizes[k] + part[k]
            if end - start <= 4 * STEP:
                tables[start:end] += np.bincount(cells, minlength=end - start)
            else:  # a table far larger than the chunk is not walked through
                where, times = np.unique(cells, return_counts=True)
                tables[start + where] += times


@cache
def compiled(threads: int | None = None) -> Tallying | None:
    """The same by numba, pairs divided among threads, each pair to one of them; None where numba does not load."""
    if (kernel := _kernel()) is None:
        return None
    workers = threads or cores()
    pool = ThreadPoolExecutor(workers) if workers > 1 else None

    def tally(codes: Codes, pairs: Pairs, tables: NDArray[np.int64]) -> None:
        ends = np.linspace(0, len(pairs.left), workers + 1).astype(np.int64)
        given = [(codes, pairs.sizes, pairs.left, pairs.right, pairs.start, a, b, tables) for a, b in pairwise(ends)]
        if pool is None:
            kernel(*given[0])
        else:
            list(pool.map(lambda g: kernel(*g), given))

    return tally


@cache
def is_installed() -> bool:
    """Whether there is a numba to compile with."""
    return find_spec("numba") is not None


@cache
def _kernel() -> Any:
    if not is_installed():
        return None
    try:
        from numba import njit
    except Exception as error:  # another version of what it needs, or a file that takes a needed module's name
        warn(f"numba is installed but does not load ({type(error).__name__}); numpy counts the same, slower.", stacklevel=2)
        return None

    return _kept(njit)


def _kept(njit: Any) -> Callable[..., None]:
    """The compiled kernel, kept on disk for the next process; where nothing can be kept, compiled for this one alone."""
    plain = njit(nogil=True)(_increments)
    try:
        cached = njit(nogil=True, cache=True)(_increments)
    except RuntimeError:  # numba finds no folder that it can write
        _warn_of_no_cache()
        return cast("Callable[..., None]", plain)

    def kernel(*given: Any) -> None:
        try:
            cached(*given)
        except OSError:  # of the folder, when it compiles, before it has added anything
            _warn_of_no_cache()
            plain(*given)

    return kernel


def _warn_of_no_cache() -> None:
    warn(
        "numba can keep its compiled code nowhere and compiles anew; set NUMBA_CACHE_DIR to a folder that can be written.",
        stacklevel=2,
    )


def _increments(codes, sizes, left, right, start, first, last, tables):  # type: ignore[no-untyped-def]
    """None; one increment for each row and each pair from `first` up to `last`. Compiled by numba, never run as it stands."""
    p = first
    while p < last:
        a, b, m = codes[left[p]], codes[right[p]], np.uint32(sizes[right[p]])
        table = tables[start[p] : start[p + 1]]
        if p + 1 < last and left[p + 1] == left[p]:  # two tables in turn: no increment waits for the one before
            c, o = codes[right[p + 1]], np.uint32(sizes[right[p + 1]])
            other = tables[start[p + 1] : start[p + 2]]
            for i in range(codes.shape[1]):
                level = np.uint32(a[i])
                table[level * m + np.uint32(b[i])] += 1
                other[level * o + np.uint32(c[i])] += 1
            p += 2
        else:
            for i in range(codes.shape[1]):
                table[np.uint32(a[i]) * m + np.uint32(b[i])] += 1
            p += 1


def is_loaded() -> bool:
    """Whether this process has paid for the compiled kernel already."""
    return bool(_kernel.cache_info().currsize)


def cores() -> int:
    """Processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
