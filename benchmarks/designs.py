"""Simulated designs: where constants are chosen, so that no dataset's test rows ever are.

Each design is a table with a schema and a declared target; `design(name, seed)` draws it afresh. They span what changes the
answer of a private regression: how many blocks matter, how collinear they are, how much is left unexplained, how heavy its
tails are, how rare the levels, and how far scores are from normal: groups of rows, skewed numbers, effects that do not add up,
columns that nearly repeat each other, levels whose outcome is certain.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from ddssp.schema import Schema

ROWS = 50_000


@dataclass(frozen=True, kw_only=True)
class Design:
    """A drawn table: the paper's kind of columns (ordinal codes as scalars, categorical codes one-hot)."""

    name: str
    schema: Schema
    table: pa.Table
    target: str
    binary: bool


def _zipf(m: int, power: float) -> np.ndarray:
    p = np.arange(1, m + 1) ** -power
    return p / p.sum()


def _codes(latent: np.ndarray, p: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Levels with frequencies p, in an order that has nothing to do with their code, following a latent normal."""
    ranks = np.argsort(np.argsort(latent)) / len(latent)
    order = rng.permutation(len(p))
    return order[np.searchsorted(np.cumsum(p[order])[:-1], ranks, side="right")]


def _features(
    rng: np.random.Generator,
    scalars: int,
    hots: tuple[int, ...],
    correlation: float,
    power: float,
    kinds: int,
    rows: int,
    echoes: tuple[tuple[int, int], ...],
    far: tuple[int, ...],
) -> tuple[dict[str, np.ndarray], dict[str, int], list[np.ndarray]]:
    """Columns, their sizes, and each block's contribution on a unit scale (a scalar, or one effect per level).

    With `kinds` rows come from so many groups, each with its own mean of every column, and numbers are skewed.
    In a pair of `echoes` the first column says nearly the same as the second. The numbers `far` are small in most rows, large
    together in a few, and told apart by these.
    """
    d = scalars + len(hots)
    mix = rng.normal(size=(d, 2)) * np.sqrt(correlation / 2)
    latent = rng.normal(size=(rows, 2)) @ mix.T + rng.normal(size=(rows, d)) * np.sqrt(max(1 - correlation, 0.05))
    if kinds:
        latent += rng.normal(size=(kinds, d))[rng.choice(kinds, rows, p=_zipf(kinds, 0.5))]
        latent[:, :scalars:2] = np.exp(1.5 * latent[:, :scalars:2]) / 4 - 3
    for i, k in echoes:
        latent[:, i] = latent[:, k] + 0.1 * rng.normal(size=rows)
    if far:
        latent[:, far] = np.exp(latent[:, far[:1]] + 0.3 * rng.normal(size=(rows, len(far)))) / 3 - 3
    columns, sizes, effects = {}, {}, []
    for i in range(scalars):
        m = 32 if i in far else int(rng.choice([2, 8, 32, 95]))
        columns[f"x{i}"] = (
            np.clip(np.floor((latent[:, i] / 6 + 0.5) * m), 0, m - 1).astype(int) if m > 2 else (latent[:, i] > 0.5).astype(int)
        )
        sizes[f"x{i}"] = m
        v = columns[f"x{i}"] / max(m - 1, 1)
        effects.append((v - v.mean()) / max(v.std(), 1e-9))
    for i, m in enumerate(hots):
        columns[f"g{i}"] = _codes(latent[:, scalars + i], _zipf(m, power), rng)
        sizes[f"g{i}"] = m
        e = rng.normal(size=m)[columns[f"g{i}"]]
        effects.append((e - e.mean()) / max(e.std(), 1e-9))
    return columns, sizes, effects


def _target(signal: np.ndarray, r2: float, tails: str, m: int, span: float, rng: np.random.Generator) -> np.ndarray:
    """A coded target of m levels over `span` standard deviations that shares R² of its variance with the signal."""
    noise = rng.standard_t(3, len(signal)) / np.sqrt(3) if tails == "heavy" else rng.normal(size=len(signal))
    y = signal / max(signal.std(), 1e-9) * np.sqrt(r2) + noise * np.sqrt(1 - r2)
    if m == 2:
        return (y > np.quantile(y, 0.7)).astype(int)
    return np.clip(np.rint((y / span + 0.5) * (m - 1)), 0, m - 1).astype(int)


def _fifth(codes: np.ndarray) -> np.ndarray:
    """Rows of the rarest levels that make up a fifth of all."""
    counts = np.bincount(codes)
    order = np.argsort(counts)
    return np.isin(codes, order[np.cumsum(counts[order]) <= len(codes) / 5])


_SHAPES: dict[str, dict[str, object]] = {
    "sparse": dict(scalars=6, hots=(8, 16, 7, 15, 6, 5, 40), active=(1, 7), r2=0.7),
    "dense": dict(scalars=5, hots=(8, 5, 18, 9), active=None, r2=0.35),
    "collinear": dict(scalars=8, hots=(10, 10, 20), active=None, r2=0.5, correlation=0.9),
    "near-deterministic": dict(scalars=6, hots=(9, 16, 7, 15, 6), active=(7,), r2=0.999),
    "heavy-tailed": dict(scalars=6, hots=(12, 20), active=(0, 1, 6), r2=0.8, tails="heavy"),
    "rare-levels": dict(scalars=3, hots=(100, 200, 30), active=(0, 3, 4), r2=0.8, power=1.3),
    "noise-only": dict(scalars=5, hots=(8, 12), active=(), r2=0.0),
    "sum-of-parts": dict(scalars=6, hots=(200, 200, 7, 4), active=(0, 1, 2, 3, 8), r2=0.985, correlation=0.9, power=1.3),
    "wide": dict(scalars=2, hots=(11, 15, 31, 5, 9, 11, 42, 8, 46, 12, 10, 28), active=(3, 4, 9), r2=0.75),
    "kinds": dict(scalars=5, hots=(9, 16, 7, 15, 6, 42), active=None, r2=0.6, kinds=6, power=1.2),
    "together": dict(scalars=4, hots=(5, 18, 9, 24), active=None, r2=0.6, kinds=4, together=((0, 5), (1, 4), (6, 7))),
    "echoes": dict(
        scalars=4,
        hots=(16, 7, 9, 6, 15, 24),
        active=None,
        r2=0.6,
        kinds=4,
        echoes=((0, 4), (5, 4), (7, 6), (1, 6)),
    ),
    "many-echoes": dict(
        scalars=4,
        hots=(9, 5, 18, 9, 6, 4, 8, 5),
        active=None,
        r2=0.5,
        kinds=6,
        echoes=((0, 4), (5, 4), (6, 4), (7, 4), (9, 8), (10, 8), (1, 8)),
    ),
    "certain": dict(
        scalars=4,
        hots=(16, 5, 18, 9, 6, 4),
        active=None,
        r2=0.5,
        kinds=6,
        echoes=((0, 4), (5, 4), (7, 4)),
        certain=True,
    ),
    "certain-few": dict(
        scalars=5,
        hots=(12, 16, 7, 15, 6, 40),
        active=(5, 6, 1),
        r2=0.5,
        kinds=4,
        echoes=((0, 5),),
        certain=True,
    ),
    "rare-certain": dict(scalars=6, hots=(9, 16, 7, 15, 6), active=(7,), r2=1.0, power=2.4),
    "far-rows": dict(
        scalars=6,
        hots=(100, 100, 7, 4),
        active=(0, 1, 2, 8),
        r2=0.99,
        correlation=0.5,
        power=1.3,
        far=(0, 1),
        span=16,
    ),
}

names = tuple(_SHAPES)


def design(name: str, seed: int, *, binary: bool = False, rows: int = ROWS) -> Design:
    """The design `name`, drawn with `seed`; `binary` for a logistic target."""
    shape = dict(_SHAPES[name])
    rng = np.random.default_rng([seed, list(_SHAPES).index(name), 77])
    columns, sizes, effects = _features(
        rng,
        int(shape["scalars"]),
        tuple(shape["hots"]),
        float(shape.get("correlation", 0.3)),
        float(shape.get("power", 0.8)),
        int(shape.get("kinds", 0)),
        rows,
        tuple(shape.get("echoes", ())),
        tuple(shape.get("far", ())),
    )
    active = range(len(effects)) if shape["active"] is None else shape["active"]
    size = rng.uniform(0.3, 1.0, len(effects)) * rng.choice([-1, 1], len(effects))
    signal = sum((size[i] * effects[i] for i in active), np.zeros(rows))
    for i, k in shape.get("together", ()):
        signal = signal + effects[i] * effects[k]
    m = 2 if binary else 33
    columns["y"] = _target(signal, float(shape["r2"]), str(shape.get("tails", "normal")), m, float(shape.get("span", 6)), rng)
    if shape.get("certain"):
        columns["y"][_fifth(columns["g0"])] = 0
    kinds = {c: {"kind": "categorical" if c.startswith("g") else "ordinal", "levels": sizes[c]} for c in sizes}
    schema = Schema(name=name, columns=kinds | {"y": {"kind": "ordinal", "levels": m}})
    return Design(name=name, schema=schema, table=pa.table(columns), target="y", binary=binary)
