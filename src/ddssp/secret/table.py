"""Adapters: whatever holds rows, in memory or in files → Arrow record batches of the declared columns.

Guarantees: only structure can fail, and no message quotes a cell, a count or a row. A CSV line that does not parse is left
out; text that is not a number is a missing number.
"""

from __future__ import annotations

import codecs
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa

from ddssp import frame
from ddssp.frame import BATCH, DataError, at_least_one, require

CSV = {".csv", ".tsv", ".txt"}

BLOCK = 2**25
"""Bytes of a CSV file that are parsed at once, and so the longest line that can be read."""


def batches(source: Any, columns: tuple[str, ...]) -> Iterator[pa.RecordBatch]:
    """Record batches with exactly `columns`, of a path to a Parquet or CSV file or of a frame."""
    if isinstance(source, str | Path):
        return at_least_one(_file(Path(source), columns), columns)
    return frame.batches(source, columns)


def names(source: Any) -> list[str]:
    """The columns that the data has; structure, not content."""
    if isinstance(source, str | Path):
        path = Path(source)
        return list(_guarded(path, lambda: _header(path)))
    return frame.names(source)


def _file(path: Path, columns: tuple[str, ...]) -> Iterator[pa.RecordBatch]:
    read = _csv if path.suffix.lower() in CSV else _parquet
    stream = _guarded(path, lambda: read(path, columns))
    while (batch := _guarded(path, lambda: next(stream, None))) is not None:
        yield batch


def _guarded(path: Path, read: Any) -> Any:
    """read(), without the reader's own messages, which may quote a cell."""
    if not path.exists():
        raise DataError(f"data file {str(path)!r} does not exist.")
    try:
        return read()
    except (OSError, pa.ArrowException, UnicodeDecodeError):
        kind = "CSV" if path.suffix.lower() in CSV else "Parquet"
        raise DataError(f"data file {str(path)!r} cannot be read as {kind}; give a .parquet or .csv file.") from None


def _parquet(path: Path, columns: tuple[str, ...]) -> Iterator[pa.RecordBatch]:
    import pyarrow.parquet as pq

    file = pq.ParquetFile(path)
    require(columns, file.schema_arrow.names)
    for batch in file.iter_batches(batch_size=BATCH, columns=list(columns)):
        yield batch.select(list(columns))


def _header(path: Path) -> list[str]:
    if path.suffix.lower() not in CSV:
        import pyarrow.parquet as pq

        return list(pq.read_schema(path).names)
    return list(_opened(path).schema.names)


def _csv(path: Path, columns: tuple[str, ...]) -> Iterator[pa.RecordBatch]:
    require(columns, _header(path))
    yield from _opened(path, columns)


def _opened(path: Path, columns: tuple[str, ...] = ()) -> Any:
    """A CSV file as a stream; every cell of `columns` as bytes, since types are never guessed from values."""
    import pyarrow.csv as pv

    delimiter = "\t" if path.suffix.lower() == ".tsv" else ","
    return pv.open_csv(
        pa.PythonFile(_Utf8(path.open("rb")), mode="r"),
        read_options=pv.ReadOptions(block_size=BLOCK),
        parse_options=pv.ParseOptions(delimiter=delimiter, newlines_in_values=True, invalid_row_handler=lambda _row: "skip"),
        convert_options=pv.ConvertOptions(
            include_columns=list(columns),
            column_types={c: pa.binary() for c in columns},
            null_values=[""],
            strings_can_be_null=True,
            check_utf8=False,
        ),
    )


class _Utf8:
    """A file as UTF-8 whatever its bytes are, ended by a line end.

    Arrow's reader cannot leave out a line that is not UTF-8 (it fails, quoting a byte), and finds no header in a file that
    is nothing but one line without an end.
    """

    closed = False

    def __init__(self, file: BinaryIO) -> None:
        self._file, self._decoder, self._ended = file, codecs.getincrementaldecoder("utf-8")("replace"), False

    def read(self, size: int) -> bytes:
        while not self._ended:
            raw = self._file.read(size)
            self._ended = len(raw) < size
            text = self._decoder.decode(raw, final=self._ended) + ("\n" if self._ended else "")
            if text:
                return text.encode()
        return b""

    def close(self) -> None:
        self._file.close()


def require_rewindable(source: Any) -> None:
    """Refuses what can be read only once (a stream, an iterator as a column), before anything of it is read."""
    parts = (source, *source.values()) if isinstance(source, Mapping) else (source,)
    if any(hasattr(part, "__next__") for part in parts):
        raise DataError("data must be readable more than once for mechanism task; pass a table or a file, or use moments.")


def stamp(source: Any) -> tuple[int, int] | None:
    """Size and time of the last change of a file; None of what is no file, or not there."""
    if not isinstance(source, str | Path) or not Path(source).exists():
        return None
    found = Path(source).stat()
    return found.st_size, found.st_mtime_ns
