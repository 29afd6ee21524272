"""What estimators say of wrong input never quotes a cell."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from ddssp.estimators import DPLinearRegression, DPLogisticRegression, DPRidge
from ddssp.schema import Schema

CELL = 73.125


@pytest.mark.parametrize("X", [np.full(30, CELL), np.full((30, 2), CELL + 1j)])
@pytest.mark.parametrize("schema", [None, "declared"])
def test_arrays_of_the_wrong_shape_or_kind(X, schema):
    columns = {c: {"kind": "numeric", "low": 0, "high": 100} for c in ("x0", "x1", "y")}
    declared = None if schema is None else Schema(name="s", columns=columns)
    model = DPLinearRegression(epsilon=1.0, schema=declared, target="y", random_state=0)
    with pytest.raises((ValueError, TypeError)) as caught:
        model.fit(X, np.linspace(0, 1, 30))
    assert "73" not in str(caught.value)
    assert str(caught.value)


X, Y = np.linspace(-1, 1, 60)[:, None], np.linspace(0, 1, 60)
CLASSES = np.repeat(["no", "yes"], 30)
TWICE = pd.DataFrame(np.zeros((60, 2)), columns=["a", "a"])
SCHEMA = Schema(columns={c: {"kind": "numeric", "low": 0, "high": 1} for c in ("a", "y")})


@pytest.mark.parametrize(
    ("model", "data", "sentence"),
    [
        (DPLogisticRegression(classes=["a", 1]), (X, CLASSES), "all texts or all numbers"),
        (DPLogisticRegression(classes="ab"), (X, CLASSES), "classes must be a list of labels"),
        (DPLogisticRegression(classes=[1.5, float("nan")]), (X, CLASSES), "classes must be printable texts"),
        (DPLogisticRegression(), (X, np.array(["secret", 3] * 30, object)), "labels of y must be all texts or all numbers"),
        (DPRidge(alpha="big"), (X, Y), "alpha must be None, or a number of 0 or more"),
        (DPLinearRegression(schema={"a": 1}), (X, Y), "schema must be a Schema, the path of one or None, got a dict"),
        (DPLinearRegression(), (TWICE, Y), "got 'a' more than once"),
        (
            DPLinearRegression(schema=SCHEMA),
            (TWICE, Y),
            "got 'a' more than once",
        ),
        (DPLinearRegression(schema=SCHEMA, target="y"), (pd.DataFrame(index=range(9)), Y[:9]), "at least one column"),
    ],
)
def test_refusals_say_what_is_wanted(model, data, sentence):
    with pytest.raises(ValueError, match=sentence):
        model.fit(*data)


@pytest.mark.filterwarnings("ignore:the classes were read")
@pytest.mark.parametrize("labels", [["secret\x1b[31m", "b"], [np.datetime64("2020-01-01"), np.datetime64("2020-01-02")]])
def test_labels_of_y_are_not_quoted(labels):
    with pytest.raises(ValueError, match="labels of y must be printable texts") as caught:
        DPLogisticRegression().fit(X, np.array(labels * 30))
    assert "secret" not in str(caught.value)
    assert "2020" not in str(caught.value)


def test_a_seeded_model_says_that_it_is_not_private():
    seeded = DPLinearRegression(mechanism="moments", random_state=0).fit(X, Y)
    assert "NOT PRIVATE" in repr(seeded)
    assert "NOT PRIVATE" in seeded.fit_.summary()
    assert seeded.fit_.to_dict()["private"] is False
    private = DPLinearRegression(mechanism="moments").fit(X, Y)
    assert "NOT PRIVATE" not in repr(private) + private.fit_.summary()
