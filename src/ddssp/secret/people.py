"""People: at most k records of each, chosen by chance, before anything is counted.

Guarantees: which records of a person are kept depends on that person's records and on chance alone. Two tables that differ in
all records of one person can therefore be read with the same choice for everybody else, and what is kept of them differs in at
most k records. That holds for every outcome of chance, and a divergence of mixtures is at most the largest of the parts, so a
release of what is kept is k²ρ-zCDP for a person if it is ρ-zCDP for a record.

Records without a person (null, NaN, blank) are left out: nobody could say how many of them are whose. Memory grows with the
number of people (their names and k record numbers each), unlike that of counting.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Hashable, Iterable, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ddssp.coding import plain
from ddssp.frame import CELLS, DataError
from ddssp.privacy.contribution import Contribution
from ddssp.secret.counts import Secret
from ddssp.secret.engines import CHANGED, Tell, quiet

Read = Callable[[tuple[str, ...], Tell], Iterable[pa.RecordBatch]]
"""Columns → the record batches of the data, from the beginning; the share that was read is told."""

NOBODY = -1


class People(Secret):
    """The records that count; made in one pass over the unit's column.

    Chance: every record gets 64 bits from the operating system; a person's k smallest stay. Later passes must meet the same
    people in the same order, or they fail: a source that changes its order would give one person's places to another.
    """

    def __init__(self, read: Read, contribution: Contribution, tell: Tell = quiet) -> None:
        self._read, self._column = read, contribution.column
        self._codes: dict[Hashable, int] = {}
        self._chosen = _Smallest(contribution.rows)
        seen, start = hashlib.blake2b(), 0
        for batch in read((self._column,), tell):
            codes = self._coded(batch.column(0), grow=True)
            seen.update(codes.tobytes())
            self._chosen.add(codes, np.frombuffer(os.urandom(8 * len(codes)), np.uint64), start)
            start += len(codes)
        self._seen, self._rows = seen.digest(), self._chosen.rows()

    def batches(self, columns: tuple[str, ...], tell: Tell = quiet) -> Iterator[pa.RecordBatch]:
        """The kept records of `columns`, in the data's order."""
        wanted = columns if self._column in columns else (*columns, self._column)
        seen, start = hashlib.blake2b(), 0
        for batch in self._read(wanted, tell):
            seen.update(self._coded(batch.column(self._column), grow=False).tobytes())
            first, last = np.searchsorted(self._rows, [start, start + batch.num_rows])
            yield batch.select(list(columns)).take(pa.array(self._rows[first:last] - start))
            start += batch.num_rows
        if seen.digest() != self._seen:
            raise DataError(f"{CHANGED}.")

    def _coded(self, array: pa.Array, *, grow: bool) -> NDArray[np.int64]:
        """A number for each record's person, the same in every pass; NOBODY where there is none."""
        encoded = _named(array).dictionary_encode()
        names = encoded.dictionary.to_pylist()
        if grow:
            for name in names:
                self._codes.setdefault(name, len(self._codes))
        table = np.array([*(self._codes.get(name, NOBODY) for name in names), NOBODY], np.int64)
        return np.asarray(table[encoded.indices.fill_null(len(names)).to_numpy(zero_copy_only=False)])


class _Smallest:
    """The records with the k smallest keys of each person, batch by batch."""

    def __init__(self, k: int) -> None:
        self._k = k
        self._codes, self._keys, self._rows = np.zeros(0, np.int64), np.zeros(0, np.uint64), np.zeros(0, np.int64)

    def add(self, codes: NDArray[np.int64], keys: NDArray[np.uint64], start: int) -> None:
        own = codes != NOBODY
        all_codes = np.concatenate([self._codes, codes[own]])
        all_keys = np.concatenate([self._keys, keys[own]])
        all_rows = np.concatenate([self._rows, start + np.flatnonzero(own)])
        order = np.lexsort((all_keys, all_codes))
        sorted_codes = all_codes[order]
        firsts = np.searchsorted(sorted_codes, sorted_codes)
        stay = order[np.arange(len(order)) - firsts < self._k]
        self._codes, self._keys, self._rows = all_codes[stay], all_keys[stay], all_rows[stay]

    def rows(self) -> NDArray[np.int64]:
        return np.sort(self._rows)


def _named(array: pa.Array | pa.ChunkedArray) -> pa.Array:
    """People's names as numbers or bytes, null where there is none; only the column's type can fail."""
    array = plain(array)
    kind = array.type
    if kind == CELLS:
        number, word = (_named(part) for part in array.flatten())
        return pc.if_else(word.is_valid(), word, number.cast(pa.string()).cast(pa.large_binary()))
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        trimmed = pc.ascii_trim_whitespace(array)
        blank = pc.equal(pc.binary_length(trimmed), 0)
        named = pc.if_else(blank, pa.scalar(None, trimmed.type), trimmed)
        return named.view(pa.large_binary() if pa.types.is_large_string(kind) else pa.binary())
    if pa.types.is_floating(kind):
        wide = array.cast(pa.float64())
        return pc.if_else(pc.is_nan(wide), pa.scalar(None, pa.float64()), wide)
    if pa.types.is_integer(kind) or pa.types.is_boolean(kind) or pa.types.is_decimal(kind) or pa.types.is_null(kind):
        return array
    raise DataError("the column that names the person must hold numbers or text; turn it into one of these.")
