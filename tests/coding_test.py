"""Coding is total: whatever a cell holds becomes a declared level or a number within the declared bounds."""

from __future__ import annotations

import datetime
import decimal
import math

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ddssp.coding import coded, design, level_codes, plain, sources
from ddssp.encoding import FIXED, Encoding
from ddssp.schema import Schema

COLUMNS = {
    "number": {"kind": "numeric", "low": -1, "high": 2, "indicator": True},
    "filled": {"kind": "numeric", "low": -1, "high": 2, "bins": 4, "fill": 2},
    "ordinal": {"kind": "ordinal", "levels": [1, 2, 5]},
    "words": {"kind": "categorical", "levels": ["a", "b", "1"], "other": "rest", "missing": "b"},
    "bare": {"kind": "categorical", "levels": ["x", "y"]},
    "flag": {"kind": "boolean"},
}
SCHEMA = Schema(
    columns=COLUMNS,
    derived={
        "square": {"function": "square", "of": "number"},
        "both": {"function": "interaction", "of": ["number", "filled"]},
        "mixed": {"function": "interaction", "of": ["number", "flag"]},
        "pair": {"function": "interaction", "of": ["words", "flag"]},
    },
)


def code(array: pa.Array) -> dict[str, np.ndarray]:
    """All columns of SCHEMA read from the same array."""
    return coded(pa.table([array] * len(COLUMNS), names=list(COLUMNS)), SCHEMA)


def assert_within_bounds(array: pa.Array) -> None:
    out = code(array)
    assert set(out) == set(SCHEMA.resolved)
    for name, values in out.items():
        column = SCHEMA.resolved[name]
        assert len(values) == len(array)
        if column.kind == "numeric":
            assert values.dtype == np.float64
            assert ((values >= column.low) & (values <= column.high)).all(), name
        else:
            assert values.dtype == np.int32
            assert ((values >= 0) & (values < column.size)).all(), name
        if column.size is not None:
            assert (level_codes(values, column) < column.size).all()
    Z = design(out, Encoding.centred(SCHEMA).blocks, SCHEMA)
    assert np.abs(Z).max(initial=0) <= 1


binary = st.binary(max_size=6)
kinds = {
    "text": (st.text(max_size=6), pa.string()),
    "large text": (st.text(max_size=6), pa.large_string()),
    "text view": (st.text(max_size=6), pa.string_view()),
    "bytes": (binary, pa.binary()),
    "large bytes": (binary, pa.large_binary()),
    "byte view": (binary, pa.binary_view()),
    "fixed bytes": (st.binary(min_size=2, max_size=2), pa.binary(2)),
    "int8": (st.integers(-128, 127), pa.int8()),
    "int64": (st.integers(-(2**63), 2**63 - 1), pa.int64()),
    "uint64": (st.integers(0, 2**64 - 1), pa.uint64()),
    "half": (st.floats(width=16), pa.float16()),
    "single": (st.floats(width=32), pa.float32()),
    "double": (st.floats(), pa.float64()),
    "bool": (st.booleans(), pa.bool_()),
    "decimal": (st.decimals(-999, 999, places=3), pa.decimal128(20, 3)),
    "date": (st.dates(), pa.date32()),
    "time": (st.times(), pa.time64("us")),
    "moment": (st.datetimes(datetime.datetime(1900, 1, 1), datetime.datetime(2100, 1, 1)), pa.timestamp("us")),
    "list": (st.lists(st.integers(0, 9), max_size=3), pa.list_(pa.int64())),
    "struct": (st.fixed_dictionaries({"a": st.integers(0, 9)}), pa.struct([("a", pa.int64())])),
    "null": (st.none(), pa.null()),
}
numbers_as_text = st.from_regex(r"[ \t]*[-+]?[0-9.]{0,5}([eE][-+]?[0-9]{0,4})?[ \t]*", fullmatch=True)
kinds["numeric text"] = (numbers_as_text, pa.string())


@st.composite
def arrays(draw):
    strategy, kind = kinds[draw(st.sampled_from(sorted(kinds)))]
    array = pa.array(draw(st.lists(st.none() | strategy, max_size=12)), kind)
    shape = draw(st.sampled_from(["plain", "dictionary", "chunked", "runs"]))
    if shape == "dictionary" and not pa.types.is_nested(kind) and not pa.types.is_null(kind):
        try:
            return array.dictionary_encode()
        except pa.ArrowNotImplementedError:
            return array
    if shape == "runs":
        try:
            return pc.run_end_encode(array)
        except pa.ArrowNotImplementedError:
            return array
    return pa.chunked_array([array, array.slice(0, 1)], kind) if shape == "chunked" else array


@settings(max_examples=400)
@given(arrays())
def test_any_column_is_coded_within_bounds(array):
    assert_within_bounds(array)


def test_text_that_is_not_utf8_is_coded_within_bounds():
    content = b"\xff\xfe" + b"3" + b" 1\xc3"
    offsets = pa.py_buffer(np.array([0, 2, 3, len(content)], np.int32).tobytes())
    assert_within_bounds(pa.Array.from_buffers(pa.string(), 3, [None, offsets, pa.py_buffer(content)]))


def test_extension_types_are_read_by_their_storage():
    array = (
        pa.ExtensionArray.from_storage(pa.bool8(), pa.array([0, 1], pa.int8())) if hasattr(pa, "bool8") else pa.array([0, 1])
    )
    assert code(array)["flag"].tolist() == [0, 1]


def numbers(cells, kind=None, name="number"):
    return code(pa.array(cells, kind))[name].tolist()


def test_numbers_are_clamped_and_missing_ones_filled():
    cells = [-math.inf, -5.0, 0.25, 7.0, math.inf, math.nan, None]
    assert numbers(cells) == [-1, -1, 0.25, 2, 2, 0.5, 0.5]
    assert numbers(cells, name="filled") == [-1, -1, 0.25, 2, 2, 2, 2]
    assert numbers(cells, name="number:missing") == [0, 0, 0, 0, 0, 1, 1]


@pytest.mark.parametrize(
    ("text", "value"),
    [("1", 1), (" 1.5 ", 1.5), ("+1.5", 1.5), (".5", 0.5), ("1.", 1), ("1e-1", 0.1), ("1e999", 2), ("-1e999", -1),
     ("9" * 400, 2), ("0x1", 0.5), ("1,5", 0.5), ("", 0.5), ("NaN", 0.5), ("inf", 0.5), ("one", 0.5), ("1_0", 0.5)],
)  # fmt: skip
@pytest.mark.parametrize("kind", [pa.string(), pa.binary()])
def test_numbers_in_text(text, value, kind):
    cell = text.encode() if kind == pa.binary() else text
    assert numbers([cell], kind) == [value]


def test_number_types():
    assert numbers([True, False]) == [1, 0]
    assert numbers([decimal.Decimal("1.25")]) == [1.25]
    assert numbers([2**63], pa.uint64()) == [2]
    assert numbers([datetime.date(2020, 1, 1)]) == [0.5]


def test_levels_in_text_are_found_as_they_stand_then_trimmed_then_by_value():
    cells = ["a", " b ", "c", None, "1", "1.0", ""]
    assert numbers(cells, name="words") == [0, 1, 3, 1, 2, 3, 3]
    # levels declared as numbers are also met by other spellings of the number; those declared as text are not
    assert numbers(["1", "1.0", "01", " 2", "2.000", "5e0", "3"], name="ordinal") == [0, 0, 0, 1, 1, 2, 0]


def test_spaces_are_kept_where_they_tell_levels_apart():
    schema = Schema(columns={"x": {"kind": "categorical", "levels": ["a", " a"], "other": "o"}})
    table = pa.table({"x": ["a", " a", "a ", "  a"]})
    assert coded(table, schema)["x"].tolist() == [0, 1, 0, 0]


def test_levels_by_number():
    assert numbers([1, 2, 5, 3, None], name="ordinal") == [0, 1, 2, 0, 0]
    assert numbers([1.0, 2.5, -0.0, math.nan], name="ordinal") == [0, 0, 0, 0]
    assert numbers([1.0, 2.0], name="words") == [2, 3]


def test_zero_has_no_sign():
    schema = Schema(columns={"x": {"kind": "categorical", "levels": [1, 0], "other": "o"}})
    assert coded(pa.table({"x": [-0.0, 0.0, 1.0]}), schema)["x"].tolist() == [1, 1, 0]


def test_booleans():
    assert numbers([True, False, None], name="flag") == [1, 0, 0]
    assert numbers(["true", "True", "TRUE", "1", "0", "false", "yes"], name="flag") == [1, 1, 1, 1, 0, 0, 0]
    assert numbers([1, 0, 7], name="flag") == [1, 0, 0]


def test_the_second_level_of_a_boolean_in_words_is_true():
    schema = Schema(columns={"x": {"kind": "boolean", "levels": ["no", "yes"]}})
    for cells in ([False, True], [0, 1], ["no", "yes"], [0.0, 1.0]):
        assert coded(pa.table({"x": cells}), schema)["x"].tolist() == [0, 1]
    turned = Schema(columns={"x": {"kind": "boolean", "levels": [True, False]}})
    assert coded(pa.table({"x": [False, True]}), turned)["x"].tolist() == [1, 0]


def test_levels_that_only_differ_beyond_floats_are_refused_not_confused():
    with pytest.raises(ValueError, match="distinct"):
        Schema(columns={"x": {"kind": "ordinal", "levels": [2**53, 2**53 + 1]}})


def test_bins_end_where_they_say():
    column = SCHEMA.columns["filled"]  # edges -1, -.25, .5, 1.25, 2
    values = np.array([-1, -0.25, np.nextafter(0.5, 0), 0.5, 1.25, 2.0])
    assert level_codes(values, column).tolist() == [0, 1, 1, 2, 3, 3]


def test_a_declared_column_named_like_an_indicator_is_left_alone():
    schema = Schema(columns={"x:missing": {"kind": "ordinal", "levels": 3}, "x": {"kind": "numeric", "low": 0, "high": 1}})
    out = coded(pa.table({"x:missing": [0, 1, 2], "x": [None, 0.5, 1.0]}), schema)
    assert out["x:missing"].tolist() == [0, 1, 2]


def test_only_what_is_needed_is_read():
    assert sources(SCHEMA, ["mixed", "number:missing"]) == ("number", "flag")
    out = coded(pa.table({"words": ["a"], "flag": [True]}), SCHEMA, ["pair"])
    assert {k: v.tolist() for k, v in out.items()} == {"pair": [1]}


def test_derived_values():
    table = pa.table({"number": [2.0, -1.0], "filled": [0.5, 2.0], "flag": [True, False], "words": ["b", "zz"]})
    out = coded(table, SCHEMA, ["square", "both", "mixed", "pair"])
    assert out["square"].tolist() == [4, 1]
    assert out["both"].tolist() == [1, -2]
    assert out["mixed"].tolist() == [2, 0]
    assert out["pair"].tolist() == [1 * 2 + 1, 3 * 2 + 0]


def test_fixed_point_reaches_both_ends_exactly():
    from ddssp.coding import numerators

    block = Encoding.centred(SCHEMA).block("number")
    assert numerators(np.array([-1.0, 0.5, 2.0]), block).tolist() == [-FIXED, 0, FIXED]


@given(low=st.floats(-1e300, 1e300), width=st.floats(1e-300, 1e300), t=st.floats(0, 1), tiny=st.booleans())
def test_fixed_point_never_leaves_its_bounds(low, width, t, tiny):
    high = 3e-308 + low if tiny else low + width
    try:
        schema = Schema(columns={"x": {"kind": "numeric", "low": low, "high": high}})
    except ValueError:
        return
    cells = [low, high, low + t * (high - low), math.inf, -math.inf, math.nan]
    out = coded(pa.table({"x": cells}), schema)
    Z = design(out, Encoding.centred(schema).blocks, schema)
    assert np.isfinite(Z).all()
    assert np.abs(Z).max() <= 1


def test_plain_takes_a_column_without_chunks():
    assert plain(pa.chunked_array([], pa.string())).to_pylist() == []


@pytest.mark.parametrize(
    "kind", [pa.int8(), pa.uint8(), pa.int16(), pa.uint16(), pa.int32(), pa.uint32(), pa.int64(), pa.uint64()]
)
@pytest.mark.parametrize("levels", [4, [3, 1, 2], [-1, 0, 1], [2, 4, 8], [2**40, 2**40 + 1], ["1", "0"]], ids=str)
def test_integers_are_coded_like_the_same_numbers_as_floats(kind, levels):
    column = {"kind": "categorical", "levels": levels}
    info = np.iinfo(str(kind))
    cells = [
        None,
        info.min,
        info.max,
        *(v for v in (-2, -1, 0, 1, 2, 3, 4, 5, 8, 2**40, 2**40 + 1) if info.min <= v <= info.max),
    ]
    array = pa.array(cells, kind)
    for declared in (column, column | {"other": "rest"}, column | {"other": "rest", "missing": "rest"}):
        schema = Schema(columns={"x": declared})
        got = coded(pa.record_batch({"x": array}), schema)["x"]
        assert got.tolist() == coded(pa.record_batch({"x": array.cast(pa.float64(), safe=False)}), schema)["x"].tolist()
        assert (
            got.tolist()
            == coded(pa.record_batch({"x": pa.concat_arrays([array] * 3)}).slice(len(array), len(array)), schema)["x"].tolist()
        )


@pytest.mark.parametrize("cells", [["a", "b", None, "zz"], [None, None], [1, 2, None], [1.5, None, 7.0], [True, None]], ids=str)
def test_dictionaries_are_coded_like_their_cells(cells):
    columns = {"x": {"kind": "categorical", "levels": ["a", "b", 1, 2], "other": "rest"}}
    number = {"x": {"kind": "numeric", "low": 0, "high": 5, "indicator": True}}
    array = pa.array(cells * 50)
    for schema in (Schema(columns=columns), Schema(columns=number)):
        expected = coded(pa.record_batch({"x": array}), schema)
        got = coded(pa.record_batch({"x": array.dictionary_encode()}), schema)
        assert {k: v.tolist() for k, v in got.items()} == {k: v.tolist() for k, v in expected.items()}
        part = coded(pa.record_batch({"x": array.dictionary_encode()}).slice(3, 60), schema)
        assert {k: v.tolist() for k, v in part.items()} == {k: v[3:63].tolist() for k, v in expected.items()}
