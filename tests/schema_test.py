"""Schema: every refusal is one sentence that names place and remedy; what is written is what is read."""

from __future__ import annotations

import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ddssp.column import MAX_LEVELS, Boolean, Categorical, Numeric, Ordinal
from ddssp.domain import TooLargeError
from ddssp.schema import Schema, SchemaError

AGE = {"kind": "numeric", "low": 0, "high": 100}


def one(**column) -> Schema:
    return Schema(columns={"x": column})


REFUSED = {
    "low above high": (dict(AGE, low=200), "low must be below high"),
    "low equals high": (dict(AGE, low=100), "low must be below high"),
    "infinite": (dict(AGE, high=math.inf), "low must be below high, both finite"),
    "not a number": (dict(AGE, high=math.nan), "low must be below high, both finite"),
    "range overflows": (dict(AGE, low=-1e308, high=1e308), "high − low must be a number"),
    "range underflows": (dict(AGE, low=0, high=5e-324), "high − low must be a number"),
    "one bin": (dict(AGE, bins=1), "bins: must be at least 2"),
    "too many bins": (dict(AGE, bins=MAX_LEVELS + 1), "bins: must be at most 65536"),
    "bins fall": (dict(AGE, bins=[0, 60, 50, 100]), "rising edges"),
    "bins end elsewhere": (dict(AGE, bins=[0, 50, 90]), "from low to high"),
    "two edges": (dict(AGE, bins=[0, 100]), "at least three"),
    "bins finer than numbers": ({"kind": "numeric", "low": 1e16, "high": 1e16 + 2, "bins": 20}, "rising edges"),
    "one-hot without bins": (dict(AGE, encoding="one-hot"), "needs bins"),
    "unknown encoding": (dict(AGE, encoding="binary"), "encoding: must be 'scalar', 'one-hot' or 'reduced'"),
    "fill outside": (dict(AGE, fill=101), "fill must lie between low and high"),
    "fill not a number": (dict(AGE, fill=math.nan), "fill must lie between low and high"),
    "low is text": (dict(AGE, low="a"), "low: must be a number"),
    "low absent": ({"kind": "numeric", "high": 1}, "low: is required"),
    "unknown setting": (dict(AGE, lower=0), "lower: is not a setting that exists here"),
    "unknown kind": (dict(AGE, kind="real"), "kind must be numeric, ordinal, categorical or boolean"),
    "kind absent": ({"low": 0, "high": 1}, "kind is required"),
    "no levels": ({"kind": "categorical", "levels": []}, "at least one level"),
    "levels absent": ({"kind": "categorical"}, "levels: is required"),
    "no count": ({"kind": "ordinal", "levels": 0}, "a count from 1 to"),
    "count below 0": ({"kind": "ordinal", "levels": -1}, "a count from 1 to"),
    "count beyond memory": ({"kind": "ordinal", "levels": 10**12}, "a count from 1 to"),
    "level twice": ({"kind": "categorical", "levels": ["a", "b", "a"]}, "levels must be distinct, got 'a' twice"),
    "level twice in value": ({"kind": "ordinal", "levels": [1, 1.0]}, "levels must be distinct"),
    "level twice in words": ({"kind": "categorical", "levels": [1, "1"]}, "levels must be distinct"),
    "true is 1": ({"kind": "categorical", "levels": [1, True]}, "levels must be distinct"),
    "level not finite": ({"kind": "ordinal", "levels": [0.0, math.inf]}, "numbers of at most 63 bits"),
    "level beyond 63 bits": ({"kind": "ordinal", "levels": [0, 2**64]}, "numbers of at most 63 bits"),
    "level of spaces": ({"kind": "categorical", "levels": ["  "]}, "mere spaces"),
    "level rings the bell": ({"kind": "categorical", "levels": ["a\x07"]}, "control characters"),
    "level null": ({"kind": "categorical", "levels": ["a", None]}, "levels: must be texts, numbers"),
    "missing undeclared": ({"kind": "categorical", "levels": ["a"], "missing": "b"}, "missing must be one of the levels"),
    "values short": ({"kind": "ordinal", "levels": 3, "values": [0, 1]}, "one number per level, got 2 for 3"),
    "values equal": ({"kind": "ordinal", "levels": 2, "values": [1, 1]}, "not all equal"),
    "values infinite": ({"kind": "ordinal", "levels": 2, "values": [1, math.inf]}, "finite"),
    "values overflow": ({"kind": "ordinal", "levels": 2, "values": [-1.7e308, 1.7e308]}, "range that a computer can halve"),
    "values of a one-hot": ({"kind": "ordinal", "levels": 2, "values": [0, 1], "encoding": "one-hot"}, "encoding = 'scalar'"),
    "vectors short": ({"kind": "categorical", "levels": 3, "values": [[1], [0]]}, "each of the 3 levels a vector"),
    "vectors ragged": ({"kind": "categorical", "levels": 2, "values": [[1], [0, 1]]}, "all of one length"),
    "vectors empty": ({"kind": "categorical", "levels": 2, "values": [[], []]}, "all of one length"),
    "vectors too long": ({"kind": "categorical", "levels": 2, "values": [[2], [0]]}, "in [-1, 1]"),
    "vectors nil": ({"kind": "categorical", "levels": 2, "values": [[0], [0]]}, "not all near 0"),
    "vectors nan": ({"kind": "categorical", "levels": 2, "values": [[1], [math.nan]]}, "in [-1, 1]"),
    "boolean of three": ({"kind": "boolean", "levels": ["a", "b", "c"]}, "must be two, got 3"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_column_is_refused_in_one_sentence(case):
    column, message = REFUSED[case]
    with pytest.raises(SchemaError, match=re.escape(message)) as caught:
        one(**column)
    assert str(caught.value).startswith("schema: column 'x': ")
    assert str(caught.value).endswith(".")
    assert "\n" not in str(caught.value)


TABLES = {
    "no columns": ({"columns": {}}, "at least one column"),
    "columns absent": ({}, "columns: is required"),
    "columns not a table": ({"columns": 3}, "columns: must be a table"),
    "column not a table": ({"columns": {"x": 3}}, "column 'x': must be a table of settings"),
    "unknown setting": ({"columns": {"x": AGE}, "color": 1}, "color: is not a setting"),
    "a setting called self": ({"columns": {"x": AGE}, "self": 1}, "self: is not a setting"),
    "name not a text": ({"columns": {"x": AGE}, "name": 3}, "name: must be a text"),
    "blank name": ({"columns": {" ": AGE}}, "must not be blank"),
    "name clears the screen": ({"columns": {"\x9b2J": AGE}}, "control characters"),
    "lone surrogate": ({"columns": {"\ud800": AGE}}, "control characters"),
    "blank dataset": ({"name": "", "columns": {"x": AGE}}, "name and unit must not be blank"),
    "blank unit": ({"unit": "", "columns": {"x": AGE}}, "name and unit must not be blank"),
    "reserved": ({"columns": {"intercept": AGE}}, "reserved for the regression's constant"),
    "reads like a level": ({"columns": {"x": {"kind": "boolean"}, "x=1": AGE}}, "reads like a level of column 'x'"),
    "indicator's name": ({"columns": {"x": dict(AGE, indicator=True), "x:missing": AGE}}, "taken by the indicator"),
}


@pytest.mark.parametrize("case", TABLES)
def test_schema_is_refused_in_one_sentence(case):
    data, message = TABLES[case]
    with pytest.raises(SchemaError, match=re.escape(message)) as caught:
        Schema(**data)
    assert "\n" not in str(caught.value)


BASE = {"x": {"kind": "numeric", "low": -2, "high": 3}, "b": {"kind": "boolean"}, "o": {"kind": "ordinal", "levels": 3}}

DERIVED = {
    "declared name": ({"x": {"function": "square", "of": "x"}}, "has the name of a declared column"),
    "absent source": ({"y": {"function": "square", "of": "z"}}, "needs the declared column 'z', which is absent"),
    "derived source": (
        {"y": {"function": "square", "of": "x"}, "z": {"function": "square", "of": "y"}},
        "needs the declared column 'y'",
    ),
    "two for a square": ({"y": {"function": "square", "of": ["x", "x"]}}, "square takes 1 column, got 2"),
    "one for an interaction": ({"y": {"function": "interaction", "of": "x"}}, "interaction takes 2 columns, got 1"),
    "log of -2": ({"y": {"function": "log1p", "of": "x"}}, "log1p needs low above -1, got -2.0"),
    "square of a boolean": ({"y": {"function": "square", "of": "b"}}, "square takes a numeric column, got boolean"),
    "number with levels": ({"y": {"function": "interaction", "of": ["x", "o"]}}, "got numeric and ordinal"),
    "unknown function": ({"y": {"function": "exp", "of": "x"}}, "function: must be 'log1p', 'square' or 'interaction'"),
    "no source": ({"y": {"function": "square", "of": []}}, "of: must name at least 1"),
}


@pytest.mark.parametrize("case", DERIVED)
def test_derived_column_is_refused_in_one_sentence(case):
    derived, message = DERIVED[case]
    with pytest.raises(SchemaError, match=re.escape(message)) as caught:
        Schema(columns=BASE, derived=derived)
    assert re.search("derived column '[yzx]'", str(caught.value))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("high", "function"), [(1e200, "square"), (1e-200, "square"), (1e200, "interaction")], ids=["over", "under", "product"]
)
def test_derived_bounds_that_no_float_holds_are_refused(high, function):
    columns = {"x": {"kind": "numeric", "low": 0, "high": high}}
    of = ["x", "x"] if function == "interaction" else "x"
    with pytest.raises(SchemaError, match="derived column 'y': "):
        Schema(columns=columns, derived={"y": {"function": function, "of": of}})


def test_interaction_of_too_many_levels_is_refused_before_they_are_built():
    wide = {"kind": "ordinal", "levels": MAX_LEVELS}
    with pytest.raises(SchemaError, match=r"at most 65536, got 65536 times 65536"):
        Schema(columns={"a": wide, "b": wide}, derived={"y": {"function": "interaction", "of": ["a", "b"]}})


finite = st.floats(-1e6, 1e6, allow_nan=False)


@given(ends=st.tuples(finite, finite, finite, finite), inside=st.tuples(st.floats(0, 1), st.floats(0, 1)))
def test_derived_bounds_hold_every_derived_value(ends, inside):
    (a, b), (c, d) = sorted(ends[:2]), sorted(ends[2:])
    if b - a < 1e-3 or d - c < 1e-3:
        return
    columns = {"x": {"kind": "numeric", "low": a, "high": b}, "y": {"kind": "numeric", "low": c, "high": d}, "z": BASE["b"]}
    derived = {
        "xx": {"function": "square", "of": "x"},
        "xy": {"function": "interaction", "of": ["x", "y"]},
        "xz": {"function": "interaction", "of": ["x", "z"]},
    }
    if a > -1:
        derived["lx"] = {"function": "log1p", "of": "x"}
    made = Schema(columns=columns, derived=derived).resolved
    x, y = (min(max(lo + t * (hi - lo), lo), hi) for (lo, hi), t in zip(((a, b), (c, d)), inside, strict=True))
    values = {"xx": [x * x], "xy": [x * y], "xz": [0.0, x]} | ({"lx": [math.log1p(x)]} if a > -1 else {})
    for name, possible in values.items():
        for value in possible:
            assert made[name].low <= value <= made[name].high, name


def test_derived_bounds_are_attained():
    made = Schema(
        columns={
            "x": {"kind": "numeric", "low": -2, "high": 3},
            "y": {"kind": "numeric", "low": -5, "high": 1},
            "b": BASE["b"],
        },
        derived={
            "xx": {"function": "square", "of": "x"},
            "xy": {"function": "interaction", "of": ["x", "y"]},
            "xb": {"function": "interaction", "of": ["x", "b"]},
            "bb": {"function": "interaction", "of": ["b", "b"]},
        },
    ).resolved
    assert (made["xx"].low, made["xx"].high) == (0, 9)
    assert (made["xy"].low, made["xy"].high) == (-15, 10)
    assert (made["xb"].low, made["xb"].high) == (-2, 3)
    assert made["bb"].labels == ("False:False", "False:True", "True:False", "True:True")


# ---------------------------------------------------------------------------------------------------- round trip

texts = st.text(st.characters(exclude_categories=("Cc", "Cs")), min_size=1, max_size=8).filter(str.strip)
levels = st.one_of(
    st.integers(1, 6),
    st.lists(texts, min_size=1, max_size=5, unique=True),
    st.lists(st.integers(-(2**62), 2**62), min_size=1, max_size=5, unique_by=float),
    st.lists(st.floats(-1e9, 1e9), min_size=1, max_size=5, unique=True),
    st.just([False, True]),
    st.just([0, 1]),
    st.just([0.0, 1.0]),
)


@st.composite
def columns(draw):
    kind = draw(st.sampled_from(["numeric", "ordinal", "categorical", "boolean"]))
    if kind == "numeric":
        low = draw(st.floats(-1e6, 1e6))
        high = low + draw(st.floats(1, 1e6))
        return Numeric(
            low=low, high=high, bins=draw(st.none() | st.integers(2, 9)), fill=draw(st.none() | st.just(low)),
            indicator=draw(st.booleans()), to_confirm=draw(st.sampled_from([(), ("low", "high")])),
        )  # fmt: skip
    chosen = draw(levels)
    if kind == "boolean":
        if isinstance(chosen, int) or len(chosen) != 2:
            return Boolean()
        return Boolean(levels=chosen)
    if kind == "ordinal":
        return Ordinal(levels=chosen, encoding=draw(st.sampled_from(["scalar", "one-hot", "reduced"])))
    return Categorical(levels=chosen, other=draw(st.none() | texts), encoding=draw(st.sampled_from(["one-hot", "reduced"])))


@given(
    table=st.dictionaries(texts.filter(lambda n: not {"=", ":"} & set(n)), columns(), min_size=1, max_size=4),
    name=texts,
    unit=texts,
)
def test_toml_and_dict_give_the_same_schema_back(table, name, unit, tmp_path_factory):
    schema = Schema(name=name, unit=unit, columns=table)
    path = tmp_path_factory.mktemp("schema") / "schema.toml"
    path.write_text(schema.to_toml(), encoding="utf-8")
    for again in (Schema.load(path), Schema.from_dict(schema.to_dict())):
        assert again == schema
        assert again.fingerprint == schema.fingerprint
        assert {n: c.size for n, c in again.resolved.items()} == {n: c.size for n, c in schema.resolved.items()}
        # 0, 0.0 and False are equal to Python; their labels tell them apart
        assert [c.labels for c in again.resolved.values()] == [c.labels for c in schema.resolved.values()]


def test_derived_columns_and_vectors_survive_the_file(tmp_path):
    schema = Schema(
        columns=BASE | {"c": {"kind": "categorical", "levels": ["a", "b"], "values": [[1, 0], [-0.5, 1]]}},
        derived={"xx": {"function": "square", "of": "x", "bins": 4}, "xb": {"function": "interaction", "of": ["x", "b"]}},
    )
    (tmp_path / "s.toml").write_text(schema.to_toml())
    assert Schema.load(tmp_path / "s.toml") == schema


def test_fingerprint_changes_with_any_declaration():
    prints = {
        one(**AGE).fingerprint,
        one(**AGE | {"high": 101}).fingerprint,
        one(**AGE | {"bins": 5}).fingerprint,
        Schema(name="other", columns={"x": AGE}).fingerprint,
        Schema(columns={"y": AGE}).fingerprint,
    }
    assert len(prints) == 5


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "does not exist; `ddssp schema draft"),
        (b"columns = ", "is not TOML"),
        (b"\xff\xfe", "cannot be read: UnicodeDecodeError"),
        (b"", "columns: is required"),
    ],
)
def test_unreadable_schema_file(tmp_path, content, message):
    path = tmp_path / "s.toml"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(SchemaError, match=message):
        Schema.load(path)


def test_a_folder_is_no_schema(tmp_path):
    with pytest.raises(SchemaError, match="cannot be read"):
        Schema.load(tmp_path)


# ---------------------------------------------------------------------------------------------------- what is resolved


def test_levels_may_be_a_count():
    assert one(kind="ordinal", levels=3).columns["x"].levels == (0, 1, 2)


def test_undeclared_and_missing_have_a_level():
    plain = one(kind="categorical", levels=["a", "b"]).columns["x"]
    assert (plain.fallback, plain.missing_code) == (0, 0)
    other = one(kind="categorical", levels=["a", "b"], other="rest", missing="b").columns["x"]
    assert other.labels == ("a", "b", "rest")
    assert (other.fallback, other.missing_code) == (2, 1)
    declared = one(kind="categorical", levels=["a", "b"], other="b").columns["x"]
    assert (declared.size, declared.fallback) == (2, 1)


def test_bins_are_half_open_but_the_last():
    assert one(**AGE, bins=2).columns["x"].labels == ("[0, 50)", "[50, 100]")
    fine = one(kind="numeric", low=1000000, high=1000001, bins=4).columns["x"]
    assert len(set(fine.labels)) == 4


def test_indicator_is_a_column_of_its_own():
    assert list(one(**AGE, indicator=True)) == ["x", "x:missing"]


def test_to_confirm_is_listed_by_column():
    schema = Schema(columns={"x": dict(AGE, to_confirm=["low", "high"]), "y": {"kind": "boolean"}})
    assert schema.to_confirm == ("x.low", "x.high")
    assert schema.waiting(1) == "x.low and 1 more"


def test_tables_need_bins():
    with pytest.raises(SchemaError, match="column 'x' has no bins, and tables need them: add bins = 20"):
        one(**AGE).domain()
    assert one(**AGE, bins=20).domain().sizes == {"x": 20}


def test_domain_too_large_is_refused_by_arithmetic_alone():
    wide = {"kind": "categorical", "levels": MAX_LEVELS}
    with pytest.raises(TooLargeError, match=r"give fewer levels to the widest columns: x \(65,536\)"):
        Schema(columns={"x": wide, "y": {"kind": "boolean"}}).domain()
