"""Files: Parquet files and folders and CSV, on this machine or wherever Arrow's file systems reach (s3://, gs://, hdfs://).

Credentials come from the environment, as those libraries have it; in a URI they are refused, since messages and the lists of
processes show URIs.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterator
from pathlib import Path, PurePosixPath
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa

from ddssp.frame import DataError, at_least_one, require
from ddssp.secret import lines
from ddssp.secret.engines import Local, Tell, ahead, cut, quiet, stamps

CSV = {".csv", ".tsv", ".txt"}

AHEAD = 2
"""Batches that Arrow decodes ahead of the kernel."""

MAX_CHUNK, MAX_CELL = 2**26, 2**12
"""Bytes of a Parquet column chunk, and then on average of its cells, above which it is not unpacked."""

T = TypeVar("T")


class File(Local):
    """A Parquet file or folder, or a CSV file.

    Edge cases: columns of a folder in Hive's manner (`year=2020/…`) are columns. A CSV line that does not parse is left out.
    """

    def __init__(self, path: str | Path, batch_rows: int) -> None:
        self.path, self._rows = str(path), batch_rows
        require_no_credentials(self.path)
        self.is_csv = _suffix(self.path) in CSV

    def names(self) -> list[str]:
        return self._guarded(lambda: self._header() if self.is_csv else list(self._schema().names))

    def stamp(self) -> Hashable:
        """Size and time of the last change of every file; None of what is not there."""
        from pyarrow import fs

        try:
            system, path = _located(self.path)
            info = system.get_file_info(path)
            if info.type == fs.FileType.Directory:  # of what is read: a ledger beside the rows changes with every release
                return stamps.of_dataset(self.dataset())
        except (OSError, pa.ArrowException):
            return None
        return None if info.type == fs.FileType.NotFound else (info.path, info.size, info.mtime_ns)

    def batches(self, columns: tuple[str, ...], tell: Tell = quiet) -> Iterator[pa.RecordBatch]:
        return at_least_one(self._stream(columns, tell), columns)

    def dataset(self) -> Any:
        """All Parquet files of a folder; Arrow's own module for that takes a while to load, so single files go without."""
        import pyarrow.dataset as ds
        from pyarrow import fs

        system, path = _located(self.path)
        remote = not isinstance(system, fs.LocalFileSystem)  # there, few large requests are worth the memory they take
        options = ds.ParquetFragmentScanOptions(pre_buffer=remote)
        kind = ds.ParquetFileFormat(default_fragment_scan_options=options)
        found = ds.dataset(path, filesystem=system, format=kind, partitioning="hive")
        if not found.files:
            raise pa.ArrowInvalid("no files")
        return found

    def _stream(self, columns: tuple[str, ...], tell: Tell) -> Iterator[pa.RecordBatch]:
        read = self._csv if self.is_csv else self._parquet
        stream = self._guarded(lambda: read(columns, tell))
        while (batch := self._guarded(lambda: next(stream, None))) is not None:
            yield batch

    def _parquet(self, columns: tuple[str, ...], tell: Tell) -> Iterator[pa.RecordBatch]:
        import pyarrow.parquet as pq

        system, path = _located(self.path)
        if not system.get_file_info(path).is_file:
            yield from DatasetRows(self.dataset(), self._rows).batches(columns, tell)
            return
        with pq.ParquetFile(system.open_input_file(path), pre_buffer=True) as file:
            require(columns, file.schema_arrow.names)
            require_small_cells(file.metadata, columns)
            total, done = max(file.metadata.num_rows, 1), 0
            for batch in ahead(_by_groups(file, columns, self._rows)):
                yield batch.select(list(columns))
                done += batch.num_rows
                tell(done / total)

    def _csv(self, columns: tuple[str, ...], tell: Tell) -> Iterator[pa.RecordBatch]:
        names = self._header()
        require(columns, names)
        system, path = _located(self.path)
        size = system.get_file_info(path).size or 1
        with system.open_input_file(path) as file:
            for batch in cut(lines.records(file, self._delimiter, columns, names), self._rows):
                yield batch
                tell(min(file.tell() / size, 1.0))

    def readable(self) -> pa.Schema:
        """Names and types of the columns that can be asked for: the name is there once, and cells are not too long."""
        names = self.names()
        once = tuple(c for c in names if names.count(c) == 1)
        if self.is_csv:
            return pa.schema([(c, pa.string()) for c in once])
        held = self._guarded(self._schema)
        long = {c for metadata in self._guarded(self._metadata) for c in too_long(metadata, once)}
        return pa.schema([held.field(c) for c in once if c not in long])

    def _metadata(self) -> list[Any]:
        import pyarrow.parquet as pq

        system, path = _located(self.path)
        if not system.get_file_info(path).is_file:
            return [fragment.metadata for fragment in self.dataset().get_fragments()]
        with system.open_input_file(path) as file:
            return [pq.read_metadata(file)]

    def _schema(self) -> pa.Schema:
        import pyarrow.parquet as pq

        system, path = _located(self.path)
        if not system.get_file_info(path).is_file:
            return self.dataset().schema
        with system.open_input_file(path) as file:
            return pq.read_schema(file)

    def _header(self) -> list[str]:
        system, path = _located(self.path)
        with system.open_input_file(path) as file:
            return lines.header(file, self._delimiter)

    @property
    def _delimiter(self) -> bytes:
        return b"\t" if _suffix(self.path) == ".tsv" else b","

    def _guarded(self, read: Callable[[], T]) -> T:
        """read(), without the reader's own messages, which may quote a cell."""
        if "://" not in self.path and not Path(self.path).exists():
            raise DataError(f"data file {self.path!r} does not exist.")
        try:
            return read()
        except (OSError, pa.ArrowException, UnicodeDecodeError):
            kind = "CSV" if self.is_csv else "Parquet"
            raise DataError(f"data file {self.path!r} cannot be read as {kind}; give a .parquet or .csv file.") from None


def _by_groups(file: Any, columns: tuple[str, ...], rows: int) -> Iterator[pa.RecordBatch]:
    """Batches of a Parquet file, one row group after the other: Arrow keeps all that it was asked for until the end."""
    for group in range(file.num_row_groups):
        yield from file.iter_batches(batch_size=rows, row_groups=[group], columns=list(columns))


class DatasetRows(Local):
    """An Arrow dataset."""

    def __init__(self, dataset: Any, batch_rows: int) -> None:
        self._dataset, self._rows = dataset, batch_rows

    def names(self) -> list[str]:
        return list(self._dataset.schema.names)

    def stamp(self) -> Hashable:
        return stamps.of_dataset(self._dataset)

    def batches(self, columns: tuple[str, ...], tell: Tell = quiet) -> Iterator[pa.RecordBatch]:
        import pyarrow.dataset as ds

        require(columns, self.names())
        for fragment in self._dataset.get_fragments():
            if isinstance(fragment, ds.ParquetFileFragment):
                require_small_cells(fragment.metadata, columns)
                require_alike(fragment.physical_schema, self._dataset.schema, columns)
        chosen = {c: ds.field((c,)) for c in columns}
        scanner = self._dataset.scanner(  # with threads of its own, Arrow decodes half a gigabyte ahead of a slower kernel
            columns=chosen, batch_size=self._rows, batch_readahead=AHEAD, fragment_readahead=1, use_threads=False
        )
        total, done = None, 0
        for batch in at_least_one(ahead(scanner.to_batches()), columns):
            yield batch
            total = self._dataset.count_rows() if total is None else total
            done += batch.num_rows
            tell(done / total if total else 0.0)


def require_small_cells(metadata: Any, columns: tuple[str, ...]) -> None:
    """Refuses a Parquet file that says that a chosen column unpacks to cells that no schema has, before it is unpacked."""
    for name in too_long(metadata, columns):
        raise DataError(f"column {name!r} must hold numbers or short texts, got cells too long to read; leave it out.")


def require_alike(held: pa.Schema, common: pa.Schema, columns: tuple[str, ...]) -> None:
    """Refuses a file of a folder whose columns fit into the folder's types or not, depending on what their cells hold."""
    for name in columns:
        if (place := held.get_field_index(name)) < 0:
            continue
        own, wanted = held.types[place], common.field(name).type
        if not _fits(own, wanted):
            raise DataError(
                f"column {name!r} must have one type in all files of a folder, got {wanted} and {own}; write it alike."
            )


def _fits(own: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether any cell of one type is one of the other."""
    if own == wanted or pa.types.is_null(own):
        return True
    if any(pa.types.is_dictionary(t) for t in (own, wanted)):
        return _fits(*(t.value_type if pa.types.is_dictionary(t) else t for t in (own, wanted)))
    if all(pa.types.is_integer(t) or pa.types.is_floating(t) for t in (own, wanted)):
        return bool(np.can_cast(own.to_pandas_dtype(), wanted.to_pandas_dtype()))
    return all(pa.types.is_string(t) or pa.types.is_large_string(t) for t in (own, wanted))


def too_long(metadata: Any, columns: tuple[str, ...]) -> Iterator[str]:
    """The chosen columns of a Parquet file that unpack to cells too long to read, by its metadata.

    Edge cases: a value that a chunk's dictionary holds once, for many rows, counts once. Single columns are looked at only in
    row groups that are large as a whole: where what a damaged file says of a column contradicts itself, Arrow ends the process.
    """
    groups = [metadata.row_group(i) for i in range(metadata.num_row_groups)]
    large = [g for g in groups if g.total_byte_size > max(MAX_CHUNK, MAX_CELL * g.num_rows)]
    for i in range(metadata.num_columns if large else 0):
        path = metadata.schema.column(i).path
        name = next((c for c in columns if path == c or path.startswith(f"{c}.")), None)
        if name is None:
            continue
        for chunk in (group.column(i) for group in large):
            if chunk.total_uncompressed_size > max(MAX_CHUNK, MAX_CELL * chunk.num_values):
                yield name


def is_database(path: str) -> bool:
    """Whether a file on this machine is a DuckDB database, by its first bytes."""
    try:
        with Path(path).open("rb") as file:
            return file.read(12)[8:] == b"DUCK"
    except (OSError, ValueError):
        return False


def require_no_database(path: str) -> None:
    """Refuses a database of which nobody says what rows are meant."""
    if is_database(path):
        raise DataError(
            f"data {path!r} is a DuckDB database, which has tables, not rows; say which with --sql (in Python sql=), "
            "as 'SELECT * FROM people'."
        )


def require_no_credentials(path: str) -> None:
    """Refuses a URI with a password or an access key in it, without quoting it.

    Edge cases: a name alone is no secret (`hdfs://user@host/…`, `abfs://container@account/…`), but s3 has keys there.
    """
    if not _is_uri(path):
        return
    scheme, _, rest = path.partition("://")
    authority, _, query = rest.partition("?")
    named, at, _ = authority.partition("/")[0].rpartition("@")
    if (at and (":" in named or scheme.startswith("s3"))) or _SECRET.search(query):
        raise DataError(
            "data is a URI with credentials in it; leave them out and set them in the environment, "
            "as AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY."
        )


def _suffix(path: str) -> str:
    """Of the file, not of the options that a URI ends with."""
    return PurePosixPath(path.partition("?")[0] if _is_uri(path) else path).suffix.lower()


def _is_uri(path: str) -> bool:
    return re.match(r"^[a-z][a-z0-9+.-]+://", path) is not None


_SECRET = re.compile("secret|token|password|credential|signature|(access|account)_?key|sas", re.IGNORECASE)
"""Options of a URI that carry them."""


def _located(path: str) -> tuple[Any, str]:
    """The file system and the path in it."""
    from pyarrow import fs

    if _is_uri(path):
        system, inside = fs.FileSystem.from_uri(path)
        return system, inside
    return fs.LocalFileSystem(), str(Path(path).absolute())
