"""Files: Parquet and CSV give the same rows; what does not parse is left out, what cannot be read is refused."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ddssp.frame import DataError
from ddssp.secret import lines, table
from ddssp.secret.engines import files


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


def test_quotes_and_delimiters_in_cells(tmp_path):
    text = 'a,b\n"x y","p,""q"""\n"",5"\n"1","2"\n'
    expected = [{"a": b"x y", "b": b'p,"q"'}, {"a": b'""', "b": b'5"'}, {"a": b"1", "b": b"2"}]
    assert cells(csv(tmp_path, text)) == expected
    assert cells(csv(tmp_path, text.replace(",", "\t"), "d.tsv"))[0] == {"a": b"x y", "b": b'p\t"q"'}


def test_a_quoted_header(tmp_path):
    path = csv(tmp_path, '\n"a","x,y"\n1,2\n')
    assert table.names(path) == ["a", "x,y"]
    assert cells(path, ("x,y", "a")) == [{"x,y": b"2", "a": b"1"}]


def test_a_line_is_a_record_even_within_quotes(tmp_path):
    assert cells(csv(tmp_path, 'a,b\n1,2\n3,"4\n5,6\n7",8\n')) == [
        {"a": b"1", "b": b"2"},
        {"a": b"3", "b": b'"4'},
        {"a": b"5", "b": b"6"},
        {"a": b'7"', "b": b"8"},
    ]


def test_mark_at_the_beginning_windows_line_ends_and_columns_in_another_order(tmp_path):
    assert cells(csv(tmp_path, b"\xef\xbb\xbfb,a,c\r\n2,1,3\r\n")) == [{"a": b"1", "b": b"2"}]


def test_text_that_is_not_utf8(tmp_path):
    assert cells(csv(tmp_path, b"a,b\n\xff\xc3\xa4,1\n")) == [{"a": "\\xffä".encode(), "b": b"1"}]
    assert cells(csv(tmp_path, b"a,b\n1,2\n\xff\n3,\xc3")) == [{"a": b"1", "b": b"2"}, {"a": b"3", "b": b"\\xc3"}]


def test_a_character_cut_by_a_block_is_put_together(tmp_path, monkeypatch):
    monkeypatch.setattr(lines, "BLOCK", 7)
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


@pytest.mark.parametrize("block", [3, 5, 8, 100])
@pytest.mark.parametrize("before", [0, 1, 2, 3])
def test_a_line_is_too_long_by_its_own_length_alone(tmp_path, monkeypatch, block, before):
    monkeypatch.setattr(lines, "BLOCK", block)
    monkeypatch.setattr(lines, "LONGEST", 8)
    rows = ["1,234567", "1,2345678", "3,4", "5" * 40, "6,7"]
    got = cells(csv(tmp_path, "\n".join(["a,b", *["x,y"] * before, *rows])))
    assert [row["b"] for row in got] == [b"y"] * before + [b"234567", b"4", b"7"]


ODD_BYTES = [b"\xff", b"\xc3", b"\xa4", b"\x1f", b"\0", b"\xef\xbb\xbf"]
ALPHABET = st.sampled_from([b"1", b"2", b",", b'"', b"\r", b" ", b"'", b"\\", *ODD_BYTES])
LINES = st.lists(st.lists(ALPHABET, max_size=8).map(b"".join), max_size=8)


@settings(max_examples=400, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(LINES, st.data(), st.sampled_from([4, 9, 1000]))
def test_a_line_inserted_is_at_most_one_record_more_and_changes_no_other(tmp_path, rows, data, block):
    """What one person's line holds decides over that line only: an open quote, too many fields, bytes that are no text."""
    inserted = data.draw(st.lists(ALPHABET, max_size=12).map(b"".join))
    place = data.draw(st.integers(0, len(rows)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lines, "BLOCK", block)
        old = cells(csv(tmp_path, b"\n".join([b"a,b", *rows])))
        new = cells(csv(tmp_path, b"\n".join([b"a,b", *rows[:place], inserted, *rows[place:]])))
        alone = cells(csv(tmp_path, b"a,b\n" + inserted))
    assert len(alone) <= 1
    assert any(new == [*old[:i], *alone, *old[i:]] for i in range(len(old) + 1))


def test_an_open_quote_in_a_large_file(tmp_path):
    assert len(cells(csv(tmp_path, b'a,b\n"1,2\n' + b"x,y\n" * 1_000_000, "open.csv"), ("a",))) == 1_000_001


@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(*[st.text(st.characters(codec="utf-8", exclude_characters="\r\n\x1f\ufeff"), max_size=5)] * 2)))
def test_what_python_writes_is_read_back(tmp_path, rows):
    import csv as python

    path = tmp_path / "w.csv"
    with path.open("w", encoding="utf-8", newline="") as file:
        python.writer(file).writerows([("a", "b"), *rows])
    assert [tuple((v or b"").decode() for v in row.values()) for row in cells(path)] == rows


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


@pytest.mark.parametrize("folder", [False, True])
def test_a_small_parquet_file_with_an_enormous_cell_is_refused_before_it_is_unpacked(tmp_path, monkeypatch, folder):
    assert files.MAX_CHUNK <= 2**26
    monkeypatch.setattr(files, "MAX_CHUNK", 2**22)
    path = tmp_path / "d.parquet"
    rows = pa.table({"a": pa.array(["x" * 2**23], pa.large_string()), "b": [1]})
    pq.write_table(rows, path, compression="zstd")
    assert path.stat().st_size < 2**14
    with pytest.raises(DataError, match="column 'a' must hold numbers or short texts, got cells too long"):
        next(iter(table.batches(tmp_path if folder else path, ("a", "b"))))
    assert cells(path, ("b",)) == [{"b": 1}]


def test_a_large_chunk_of_ordinary_cells_is_read(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "MAX_CHUNK", 2**12)
    path = tmp_path / "d.parquet"
    pq.write_table(pa.table({"a": [f"word {i}" for i in range(10_000)], "b": range(10_000)}), path, use_dictionary=False)
    assert len(cells(path)) == 10_000
