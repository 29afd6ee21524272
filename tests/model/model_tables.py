"""Tables, schemas and releases that the tests of models share."""

from __future__ import annotations

from typing import Any

import numpy as np

from ddssp.curate import curate, plan
from ddssp.experiments.noise import NoNoise, SeededNoise
from ddssp.released import Release
from ddssp.schema import Schema

MIXED = Schema(
    name="mixed",
    columns={
        "age": {"kind": "numeric", "low": 0, "high": 100},
        "hours": {"kind": "numeric", "low": 0, "high": 80},
        "smokes": {"kind": "boolean"},
        "plan": {"kind": "categorical", "levels": ["a", "b", "c"]},
        "area": {"kind": "categorical", "levels": ["n", "s", "w"], "encoding": "one-hot"},
        "cost": {"kind": "numeric", "low": -50, "high": 150},
    },
)


def on_lattice(values: np.ndarray, low: float, high: float) -> np.ndarray:
    """Numbers that 16-bit fixed point holds exactly, so that rounding does not enter a comparison."""
    centre, half = (low + high) / 2, (high - low) / 2
    return centre + half * np.rint(np.clip((values - centre) / half, -1, 1) * 32767) / 32767


def mixed(rng: np.random.Generator, n: int = 4000) -> dict[str, Any]:
    code, area = rng.choice(3, size=n, p=[0.5, 0.3, 0.2]), rng.choice(3, size=n)
    age = on_lattice(rng.normal(45, 15, n) + 3 * code, 0, 100)
    hours = on_lattice(rng.normal(38, 10, n), 0, 80)
    smokes = rng.random(n) < 0.15 + 0.003 * age
    cost = 10 + 0.4 * age - 0.2 * hours + 5 * smokes + np.array([0.0, 4.0, -6.0])[code] + area + rng.normal(0, 12, n)
    return {
        "age": age,
        "hours": hours,
        "smokes": smokes,
        "plan": np.array(list("abc"))[code],
        "area": np.array(list("nsw"))[area],
        "cost": on_lattice(cost, -50, 150),
    }


def exact(data: Any, schema: Schema, epsilon: float = 100.0) -> Release:
    """The exact statistics through the same door; σ is known, and at ε = 100 next to nothing."""
    return curate(data, plan(schema, epsilon=epsilon, delta=1e-5, mechanism="moments"), noise=NoNoise())


def noisy(data: Any, schema: Schema, epsilon: float, seed: int, target: str | None = None) -> Release:
    made = plan(schema, epsilon=epsilon, delta=1e-5, mechanism="moments", target=target)
    return curate(data, made, noise=SeededNoise(seed))


NUMBERS = Schema(
    name="numbers",
    columns={
        "a": {"kind": "numeric", "low": -5, "high": 5},
        "b": {"kind": "numeric", "low": -5, "high": 5},
        "c": {"kind": "numeric", "low": -5, "high": 5},
        "sick": {"kind": "boolean"},
        "visits": {"kind": "numeric", "low": 0, "high": 60},
    },
)


def classes(rng: np.random.Generator, n: int = 60_000) -> dict[str, Any]:
    """Two Gaussian classes with one covariance, and a Poisson count of the features: both models hold."""
    sick = rng.random(n) < 0.3
    C = 0.64 * np.array([[1, 0.3, 0], [0.3, 1, 0.2], [0, 0.2, 1]])
    X = rng.multivariate_normal(np.zeros(3), C, n) + np.where(sick[:, None], [0.4, -0.2, 0.0], [-0.1, 0.1, 0.0])
    visits = rng.poisson(np.exp(0.5 + 0.3 * X[:, 0] - 0.2 * X[:, 1]))
    return {"a": X[:, 0], "b": X[:, 1], "c": X[:, 2], "sick": sick, "visits": visits}
