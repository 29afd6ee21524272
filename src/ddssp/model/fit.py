"""Fit: what every fitted regression answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ddssp import frame
from ddssp.coding import coded, design, sources
from ddssp.encoding import Encoding
from ddssp.model.equations import Equations
from ddssp.model.interval import IntervalError, Intervals, Wald, require_level
from ddssp.model.solve import Shrinkage
from ddssp.schema import Schema

Array = NDArray[np.float64]

UNKNOWN_NOISE = (
    "no standard errors: this release holds estimated tables, whose error is known only for the tables that were measured; "
    "for all others it is the graphical model's own, which no interval here would cover."
)
NO_EQUATIONS = "no standard errors: this fit was not made from a release's moments."


@dataclass(frozen=True, kw_only=True, eq=False)
class Fit:
    """A fitted regression.

    Args:
        theta: coefficients of the encoding.
        encoding: the features' blocks.
        shrinkage: how the noise was met; None where a penalty does it.
        equations: the normal equations it was solved from.
        private: False if the release's noise was reproducible; every table then says so.
    """

    model: ClassVar[str] = ""
    target: str
    theta: Array
    encoding: Encoding
    schema: Schema
    shrinkage: Shrinkage | None
    equations: Equations | None = None
    private: bool = True

    @property
    def title(self) -> str:
        return f"{self.model.capitalize()} regression of {self.target}"

    @property
    def coef(self) -> dict[str, float]:
        """Coefficients on the original scale, named `column` or `column=level`; shrunken, for prediction."""
        raise NotImplementedError

    @property
    def intervals(self) -> Intervals:
        """Unshrunken estimates with their standard errors; IntervalError where the release does not support them."""
        raise NotImplementedError

    @property
    def not_covered(self) -> str | None:
        """Why there are no intervals, or None if there are."""
        if self.equations is None:
            return NO_EQUATIONS
        return UNKNOWN_NOISE if self.equations.noise is None else None

    @property
    def not_normal(self) -> tuple[str, ...]:
        """Coefficients without an interval because the model takes their columns for normal, which they are not."""
        return ()

    @property
    def stderr(self) -> dict[str, float]:
        """Standard errors, sampling and privacy together; inf where the noise leaves a coefficient unidentified."""
        found = self.intervals
        return dict(zip(found.names, found.stderr.tolist(), strict=True))

    def conf_int(self, level: float = 0.95) -> dict[str, tuple[float, float]]:
        """Intervals for the population's coefficients; (−inf, inf) where one is not identified."""
        found = self.intervals
        return {name: (low, high) for name, (low, high) in zip(found.names, found.limits(level).tolist(), strict=True)}

    def wald(self, names: Sequence[str]) -> Wald:
        """Tests that all of `names` are 0."""
        raise NotImplementedError

    @property
    def facts(self) -> dict[str, float | None]:
        """Numbers about the fit as a whole that the release supports."""
        return {"records": None if self.equations is None else self.equations.total}

    def predict(self, data: Any) -> Array:
        """The target's expected value for each row of a frame."""
        raise NotImplementedError

    def summary(self, level: float = 0.95, width: int | None = None) -> str:
        """A table like statsmodels': coef, std err and its two parts, z, P>|z| and the interval.

        Args:
            width: letters of a line, where there is no room for all columns side by side; those that do not fit follow below.
        """
        from ddssp.model.summary import summary

        require_level(level)
        return summary(self, level, width)

    def to_dict(self, level: float = 0.95) -> dict[str, Any]:
        """Everything the summary says, for JSON; None where a coefficient is not identified."""
        require_level(level)
        how = None if self.shrinkage is None else self.shrinkage.value
        head = {"model": self.model, "target": self.target, "private": self.private, "shrinkage": how, **self.facts}
        if self.not_covered is not None:
            return head | {"not_covered": self.not_covered, "coef": self.coef}
        found = self.intervals
        limits = found.limits(level)
        columns = {
            "estimate": found.estimate,
            "stderr": found.stderr,
            "sampling": found.sampling,
            "privacy": found.privacy,
            "z": found.z,
            "p": found.p,
            "low": limits[:, 0],
            "high": limits[:, 1],
        }
        rows = [{k: float(v[i]) if known else None for k, v in columns.items()} for i, known in enumerate(found.identified)]
        shown = {"level": level, "intervals": dict(zip(found.names, rows, strict=True))}
        return head | {"coef": self.coef} | shown | ({"not_normal": list(self.not_normal)} if self.not_normal else {})

    def _require_intervals(self) -> None:
        if self.not_covered is not None:
            raise IntervalError(self.not_covered)


def design_of(data: Any, encoding: Encoding, schema: Schema) -> Array:
    """Z of a raw frame, through the schema."""
    columns = sources(schema, encoding.columns) or tuple(frame.names(data)[:1])
    table = pa.Table.from_batches(list(frame.batches(data, columns)))
    return design(coded(table, schema, encoding.columns), encoding.blocks, schema, rows=table.num_rows)
