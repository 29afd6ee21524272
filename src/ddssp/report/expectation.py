r"""What accuracy a release would have, before it is made: from the schema and a stated number of records alone.

The moments of a table with unrelated columns, numbers spread evenly over their range and equally common levels follow from the
schema, Z'Z = n diag(1, 1/3, …, (1/m) P, …), and the noise of each block from the mechanism's own allocation at each ε. Reading
a regression out of both gives the errors to expect.

Guarantees: no row is read, nothing is drawn, nothing is spent; the result is public.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ddssp.encoding import Block, Encoding
from ddssp.inference.noise_covariance import block_noise
from ddssp.inference.psd import assembled
from ddssp.marginal import Measurement
from ddssp.mechanism.moments import TARGET_WEIGHT, allocation, queries
from ddssp.model.equations import equations
from ddssp.model.interval import Inference
from ddssp.privacy.budget import rho_of
from ddssp.privacy.contribution import Contribution
from ddssp.privacy.curator import Form, Query
from ddssp.schema import Schema

MOST_RECORDS = 10**12

EPSILONS = (0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0)


def expectation(
    schema: Schema,
    *,
    records: int,
    epsilon: float,
    delta: float,
    target: str | None = None,
    mechanism: str = "moments",
    contribution: Contribution | None = None,
) -> dict[str, Any]:
    """What the preview page shows: expected errors at several ε, the planned one among them."""
    if not 1 <= records <= MOST_RECORDS:
        raise ValueError(
            f"records must be from 1 to {MOST_RECORDS:,}, got {records:,}; state about how many rows the data has."
        )
    encoding = Encoding.centred(schema)
    about = _target(encoding, target)
    rows = [_expected(schema, encoding, records, e, delta, about, target, contribution) for e in sorted({*EPSILONS, epsilon})]
    return {
        "format": 1,
        "kind": "expectation",
        "name": schema.name,
        "unit": schema.unit,
        "records": records,
        "delta": delta,
        "epsilon": epsilon,
        "target": about,
        "declared": target,
        "mechanism": mechanism,
        "columns": len(schema.resolved),
        "rows": rows,
    }


def _target(encoding: Encoding, target: str | None) -> str:
    """The column that the preview explains: the declared target if it is a number, else the first column that is."""
    scalars = [b.column for b in encoding if b.column is not None and b.is_scalar]
    if not scalars or len(encoding.columns) < 2:
        raise ValueError(
            "schema must declare a number, an ordinal or a boolean column and one more for a preview of a regression."
        )
    return target if target in scalars else scalars[0]


def _expected(
    schema: Schema,
    encoding: Encoding,
    records: int,
    epsilon: float,
    delta: float,
    target: str,
    declared: str | None,
    contribution: Contribution | None,
) -> dict[str, Any]:
    rho = rho_of(epsilon, delta)
    asked = queries(encoding)
    weights = np.array([TARGET_WEIGHT if declared is not None and declared in q.clique else 1.0 for q in asked])
    sigmas = allocation(asked, weights, float(rho if contribution is None else contribution.for_records(rho)))
    measured = [
        Measurement(clique=q.clique, values=_even(q, float(records)), sigma=float(s))
        for q, s in zip(asked, sigmas, strict=True)
    ]
    e = equations(assembled(measured, encoding), target, noise=block_noise(measured, encoding))
    assert e.noise is not None
    found = Inference(equations=e, noise=e.noise).intervals
    ranges = np.array([_range(name, encoding) for name in found.names])
    kept = found.identified & np.array([name != "intercept" for name in found.names])
    typical = [float(np.median(part[kept] * ranges[kept])) if kept.any() else None for part in (found.stderr, found.sampling)]
    cross = [s for q, s in zip(asked, sigmas, strict=True) if len(set(q.clique)) == 2]
    return {
        "epsilon": epsilon,
        "total": typical[0],
        "sampling": typical[1],
        "identified": int(found.identified.sum()),
        "of": len(found.names),
        "correlation": float(np.median(cross)) * 3 / records,
    }


def _even(query: Query, n: float) -> NDArray[np.float64]:
    """The answer for even, unrelated columns: n, 0, and what follows for squares."""
    if not query.clique:
        return np.array([[n]])
    if query.form is Form.SQUARE:
        return np.array([[n * (_second(query.left) - 0.5)]])
    if query.left is query.right:
        return np.asarray(query.left.A @ query.left.A.T * (n / query.left.A.shape[1]))
    return np.zeros(query.shape)


def _second(block: Block) -> float:
    """E z² of a scalar: 1/3 of a number, the mean over its levels otherwise."""
    return 1 / 3 if block.numerators is None else float(np.mean(block.A[0] ** 2))


def _range(name: str, encoding: Encoding) -> float:
    """A number's declared range; 1 for a level."""
    return 2 * encoding.block(name).half if name in encoding.columns else 1.0
