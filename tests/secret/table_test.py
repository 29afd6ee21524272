"""Files: Parquet and CSV give the same rows; what does not parse is left out, what cannot be read is refused."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ddssp.frame import DataError
from ddssp.secret import table


def cells(path, columns=("a", "b")) -> list[dict]:
    return pa.Table.from_batches(list(table.batches(path, columns))).to_pylist()


def csv(tmp_path, text: str | bytes, name="d.csv"):
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def test_csv_cells_are_bytes_and_never_guessed(tmp_path):
    assert cells(csv(tmp_path, "a,b\n01,x\n1.0,\n")) == [{"a": b"01", "b": b"x"}, {"a": b"1.0", "b": None}]


def test_tsv(tmp_path):
    assert cells(csv(tmp_path, "a\tb\n1\t2\n", "d.tsv")) == [{"a": b"1", "b": b"2"}]


def test_ragged_lines_are_left_out(tmp_path):
    assert cells(csv(tmp_path, "a,b\n1,2\n3\n4,5,6\n7,8\n")) == [{"a": b"1", "b": b"2"}, {"a": b"7", "b": b"8"}]


def test_quotes_and_line_breaks_in_cells(tmp_path):
    assert cells(csv(tmp_path, 'a,b\n"x\ny","p,""q"""\n')) == [{"a": b"x\ny", "b": b'p,"q"'}]


def test_mark_at_the_beginning_windows_line_ends_and_columns_in_another_order(tmp_path):
    assert cells(csv(tmp_path, b"\xef\xbb\xbfb,a,c\r\n2,1,3\r\n")) == [{"a": b"1", "b": b"2"}]


def test_text_that_is_not_utf8(tmp_path):
    assert cells(csv(tmp_path, b"a,b\n\xff\xc3\xa4,1\n")) == [{"a": "\ufffdä".encode(), "b": b"1"}]
    assert cells(csv(tmp_path, b"a,b\n1,2\n\xff\n3,\xc3")) == [{"a": b"1", "b": b"2"}, {"a": b"3", "b": b"\xef\xbf\xbd"}]


def test_a_character_cut_by_a_block_is_put_together(tmp_path, monkeypatch):
    monkeypatch.setattr(table, "BLOCK", 64)
    rows = ["ä" * k for k in range(1, 20)]
    got = cells(csv(tmp_path, "a,b\n" + "".join(f"{r},1\n" for r in rows)))
    assert [row["a"].decode() for row in got] == rows


def test_header_only(tmp_path):
    assert cells(csv(tmp_path, "a,b\n")) == []
    assert cells(csv(tmp_path, "a,b")) == []
    assert table.names(csv(tmp_path, "a,b")) == ["a", "b"]


@pytest.mark.parametrize("size", [10_000_000, 30_000_000])
def test_a_very_long_cell(tmp_path, size):
    path = csv(tmp_path, b"a,b\n1,2\n" + b"x" * size + b",3\n4,5\n")
    assert [len(row["a"]) for row in cells(path)] == [1, size, 1]


def test_parquet_reads_the_declared_columns_only(tmp_path):
    path = tmp_path / "d.parquet"
    pq.write_table(pa.table({"b": ["x"], "a": [1], "a.b": [2], "c": [3]}), path)
    assert cells(path) == [{"a": 1, "b": "x"}]
    assert cells(path, ("a.b", "a")) == [{"a.b": 2, "a": 1}]
    assert table.names(path) == ["b", "a", "a.b", "c"]


def test_several_row_groups(tmp_path):
    path = tmp_path / "d.parquet"
    pq.write_table(pa.table({"a": list(range(10)), "b": ["x"] * 10}), path, row_group_size=3)
    assert [row["a"] for row in cells(path)] == list(range(10))


UNREADABLE = {
    "empty.csv": b"",
    "text.parquet": b"a,b\n1,2\n",
    "zeros.parquet": b"\0" * 100,
    "open.csv": b'a,b\n"1,2\n' + b"x,y\n" * 20_000_000,
}


@pytest.mark.parametrize("name", UNREADABLE)
def test_unreadable_file_is_refused_without_quoting_it(tmp_path, name):
    path = csv(tmp_path, UNREADABLE[name], name)
    kind = "CSV" if name.endswith("csv") else "Parquet"
    with pytest.raises(DataError, match=f"cannot be read as {kind}; give a .parquet or .csv file") as caught:
        cells(path)
    assert caught.value.__cause__ is None


def test_absent_file_and_folder(tmp_path):
    with pytest.raises(DataError, match="does not exist"):
        cells(tmp_path / "none.csv")
    for name in ("d.parquet", "d.csv"):
        (tmp_path / name).mkdir()
        with pytest.raises(DataError, match="cannot be read"):
            cells(tmp_path / name)


def test_absent_and_double_columns(tmp_path):
    with pytest.raises(DataError, match="column 'b' of the schema is absent"):
        cells(csv(tmp_path, "a,c\n1,2\n"))
    with pytest.raises(DataError, match="column 'a' appears twice"):
        cells(csv(tmp_path, "a,a,b\n1,2,3\n"))
    with pytest.raises(DataError, match="column 'a' of the schema is absent"):
        cells(csv(tmp_path, b"\xff,b\n1,2\n"))


def test_parquet_cut_short(tmp_path):
    path = tmp_path / "d.parquet"
    pq.write_table(pa.table({"a": list(range(1000)), "b": ["x"] * 1000}), path)
    content = path.read_bytes()
    path.write_bytes(content[:-1])
    with pytest.raises(DataError):
        cells(path)
    damaged = bytearray(content)
    damaged[4:200] = b"\xff" * 196
    path.write_bytes(damaged)
    with pytest.raises(DataError):
        cells(path)
