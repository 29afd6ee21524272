"""What estimators say of wrong input never quotes a cell."""

from __future__ import annotations

import numpy as np
import pytest

from ddssp.estimators import DPLinearRegression
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
