"""Whatever a release holds, a fit is finite and says what it knows, or refuses in one sentence."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from model_tables import noisy

from ddssp.schema import Schema

SCHEMA = Schema(
    columns={
        "n": {"kind": "numeric", "low": 0, "high": 10},
        "k": {"kind": "ordinal", "levels": 3},
        "c": {"kind": "categorical", "levels": ["a", "b", "c"]},
        "m": {"kind": "categorical", "levels": ["a", "b"], "encoding": "one-hot"},
        "v": {"kind": "categorical", "levels": 3, "values": [[1, 0], [0, 1], [0, 0]]},
        "b": {"kind": "boolean"},
        "one": {"kind": "categorical", "levels": ["only"]},
    }
)
MODELS = {
    "linear": ("n", "k", "b"),
    "logistic": ("b", "c", "m"),
    "poisson": ("n", "k"),
    "naive_bayes": ("b", "c"),
    "ridge": ("n",),
    "elastic_net": ("n",),
}


def fitted(release, model: str, target: str):
    """The fit, or the sentence that refuses it."""
    try:
        return getattr(release, model)(target)
    except ValueError as refusal:
        return str(refusal)


@pytest.mark.parametrize("model", MODELS)
@settings(max_examples=12)
@given(rows=st.sampled_from([0, 1, 3, 40]), epsilon=st.sampled_from([0.01, 1.0, 50.0]), seed=st.integers(0, 10**6))
def test_every_model_survives_every_release(model, rows, epsilon, seed):
    rng = np.random.default_rng(seed)
    data = {
        "n": rng.random(rows) * 10,
        "k": rng.integers(0, 3, rows),
        "c": rng.choice(list("abc"), rows),
        "m": rng.choice(list("ab"), rows),
        "v": rng.integers(0, 3, rows),
        "b": rng.random(rows) < 0.5,
        "one": ["only"] * rows,
    }
    release = noisy(data, SCHEMA, epsilon, seed)
    for target in MODELS[model]:
        fit = fitted(release, model, target)
        if isinstance(fit, str):
            assert "\n" not in fit
            continue
        assert all(math.isfinite(v) for v in fit.coef.values())
        assert fit.summary()
        json.dumps(fit.to_dict(), allow_nan=False)
        some = {name: np.array(cells) for name, cells in data.items()} if rows else {n: np.array([0]) for n in data}
        assert np.isfinite(
            fit.predict(some).astype(float) if model not in {"logistic", "naive_bayes"} else fit.predict_proba(some)
        ).all()


def test_no_features_and_no_intercept_is_refused():
    release = noisy({name: [0] for name in SCHEMA.columns}, SCHEMA, 1.0, 0)
    with pytest.raises(ValueError, match="at least one column"):
        release.linear("n", features=[], intercept=False)
