"""CSV text → record batches. One line is one record, whatever it holds.

A reader that lets quoted cells run over line ends lets one record swallow all that follow: then one person's cell decides over
the whole table, and no noise covers that. Here every line is read by itself.

Guarantees: a line adds at most one record, and how it is read depends on nothing but its own bytes and the header.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pv

BLOCK = 2**24
"""Bytes that are parsed at once."""

LONGEST = 2**25
"""A longer line is left out."""

INSIDE = b"\x1f"
"""Stands for a delimiter inside quotes while lines are cut into fields; no declared level can hold it."""

_MARK = "\ufeff".encode()


class Bytes(Protocol):
    """An open file."""

    def read(self, size: int) -> bytes: ...


def header(file: Bytes, delimiter: bytes) -> list[str]:
    """The fields of the first line that is not blank."""
    for block in whole_lines(file):
        for line in plain_lines(block, delimiter).split(b"\n"):
            if line.strip(b" \t"):
                return [field.replace(INSIDE, delimiter).decode() for field in line.split(delimiter)]
    raise pa.ArrowInvalid("no header")


def records(file: Bytes, delimiter: bytes, columns: tuple[str, ...], names: list[str]) -> Iterator[pa.RecordBatch]:
    """Cells of `columns` as bytes, since types are never guessed from values; lines of another length than the header's are
    left out."""
    places = [names.index(c) for c in columns]
    before = True
    for block in whole_lines(file):
        lines = plain_lines(block, delimiter)
        if before:
            lines, before = _below_header(lines)
        if lines.strip(b"\n"):
            yield from _parsed(lines, delimiter, len(names), places, columns)


def whole_lines(file: Bytes) -> Iterator[bytes]:
    """The file in blocks of whole lines, each ended by a line end, without those longer than LONGEST."""
    rest, within = b"", False
    while chunk := file.read(min(BLOCK, LONGEST)):
        if within:  # a line that is left out
            end = chunk.find(b"\n")
            within, chunk = end < 0, chunk[end + 1 :] if end >= 0 else b""
        data = rest + chunk
        start = data.find(b"\n") + 1 if data.find(b"\n") > LONGEST else 0
        end = data.rfind(b"\n") + 1
        if end > start:
            yield data[start:end]
        rest = data[end:]
        if len(rest) > LONGEST:
            rest, within = b"", True
    if rest:
        yield rest + b"\n"


def plain_lines(block: bytes, delimiter: bytes) -> bytes:
    r"""The lines as UTF-8 without quotes, delimiters inside quotes replaced by INSIDE.

    A quote opens or closes wherever it stands, a doubled one within quotes stands for itself, and every line begins outside.
    Edge cases: in a line with an odd number of quotes they are ordinary characters. \r is a space unless \n follows.
    """
    text = block.decode("utf-8", "backslashreplace").encode().replace(_MARK, b"").replace(b"\r\n", b"\n").replace(b"\r", b" ")
    if b'"' not in text:
        return text
    raw = np.frombuffer(text, np.uint8)
    ends, quotes = np.flatnonzero(raw == ord("\n")), np.flatnonzero(raw == ord('"'))
    first = np.searchsorted(quotes, np.concatenate([[0], ends[:-1] + 1]))
    paired = np.diff(first, append=len(quotes)) % 2 == 0
    quotes_line = np.searchsorted(ends, quotes)
    opens = (np.arange(len(quotes)) - first[quotes_line]) % 2 == 0
    doubled = opens & (np.diff(quotes, prepend=-2) == 1) & (np.arange(len(quotes)) > first[quotes_line])
    commas = np.flatnonzero(raw == ord(delimiter))
    commas_line = np.searchsorted(ends, commas)
    within = (np.searchsorted(quotes, commas) - first[commas_line]) % 2 == 1
    out, keep = raw.copy(), np.ones(len(raw), bool)
    out[commas[within & paired[commas_line]]] = ord(INSIDE)
    keep[quotes[paired[quotes_line] & ~doubled]] = False
    return out[keep].tobytes()


def _below_header(lines: bytes) -> tuple[bytes, bool]:
    """What follows the first line that is not blank, and whether that line is still to come."""
    bare = lines.lstrip(b"\n \t")
    return (bare[bare.index(b"\n") + 1 :], False) if bare else (b"", True)


def _parsed(
    lines: bytes, delimiter: bytes, width: int, places: list[int], columns: tuple[str, ...]
) -> Iterator[pa.RecordBatch]:
    chosen = [str(i) for i in places]
    table = pv.read_csv(
        pa.BufferReader(lines),
        read_options=pv.ReadOptions(block_size=len(lines) + 1, column_names=[str(i) for i in range(width)]),
        parse_options=pv.ParseOptions(
            delimiter=delimiter.decode(), quote_char=False, double_quote=False, invalid_row_handler=lambda _row: "skip"
        ),
        convert_options=pv.ConvertOptions(
            include_columns=chosen,
            column_types={c: pa.binary() for c in chosen},
            null_values=[""],
            strings_can_be_null=True,
            check_utf8=False,
        ),
    ).rename_columns(list(columns))
    if INSIDE in lines:
        table = pa.table([_commas(c, delimiter) for c in table.columns], names=list(columns))
    yield from table.to_batches()


def _commas(column: pa.ChunkedArray, delimiter: bytes) -> pa.ChunkedArray:
    restored = [pc.replace_substring(c.view(pa.string()), INSIDE.decode(), delimiter.decode()) for c in column.chunks]
    return pa.chunked_array([c.view(pa.binary()) for c in restored], pa.binary())
