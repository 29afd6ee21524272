"""Which columns X and y are: as a schema declares them, or by fixed public bounds; never by looking at values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ddssp.coding import sources
from ddssp.column import AnyColumn, Numeric
from ddssp.schema import Schema

FEATURE = Numeric(low=-10.0, high=10.0)
TARGET = Numeric(low=-100.0, high=100.0)
COUNT = Numeric(low=0.0, high=100.0)
"""What features, a regressor's target and a Poisson target are taken to be where no schema declares them; clamped."""


@dataclass(frozen=True, kw_only=True)
class Declaration:
    """A schema of the features, in the order of X, and then the target."""

    schema: Schema
    target: str

    @property
    def features(self) -> tuple[str, ...]:
        """The columns of X."""
        return tuple(c for c in self.schema.columns if c != self.target)

    @property
    def column(self) -> AnyColumn:
        """The target's."""
        return self.schema.columns[self.target]


def public(names: Sequence[str], target: str | None, column: AnyColumn) -> Declaration:
    """Fixed bounds for every feature; the target, "y" unless named, is `column`."""
    target = "y" if target is None else target
    if target in names:
        raise ValueError(f"target {target!r} is the name of a feature too; name the target otherwise, with target=.")
    return Declaration(schema=Schema(columns={**dict.fromkeys(names, FEATURE), target: column}), target=target)


def declared(schema: Schema, names: Sequence[str] | None, width: int, target: str | None) -> Declaration:
    """The schema cut down to X and the target.

    Edge cases: declared columns that X does not have are left out, and derived columns that need them too; a feature made of
    the target is refused.

    Args:
        names: of the columns of X; None for an array, whose columns are those of the schema in their order.
        width: how many columns X has.
        target: its column; by default the only one that X does not have, or the last one where X has no names.
    """
    target = _target(schema, names, target)
    features = [c for c in schema.columns if c != target] if names is None else names
    if len(features) != width:
        raise ValueError(f"X without names must have the {len(features)} features of the schema, got {width}; pass a frame.")
    for name in features:
        if name not in schema.columns:
            raise ValueError(
                f"column {name!r} of X must be declared in the schema, which has none of that name; add or drop it."
            )
    columns = {name: schema.columns[name] for name in [*features, target]}
    derived = {name: d for name, d in schema.derived.items() if set(d.of) <= set(columns)}
    kept = Schema(name=schema.name, unit=schema.unit, columns=columns, derived=derived)
    for name in kept.resolved:
        if name != target and target in sources(kept, [name]):
            raise ValueError(f"column {name!r} is made of the target {target!r}, so it cannot be a feature; drop it.")
    return Declaration(schema=kept, target=target)


def _target(schema: Schema, names: Sequence[str] | None, target: str | None) -> str:
    if target is not None:
        if target not in schema.columns:
            raise ValueError(f"target must be a declared column of the schema, got {target!r}.")
        if names is not None and target in names:
            raise ValueError(f"target {target!r} is a column of X too; drop it from X.")
        return target
    if names is None:
        return list(schema.columns)[-1]
    absent = [c for c in schema.columns if c not in names]
    if len(absent) != 1:
        raise ValueError(
            f"target must be named where {len(absent)} columns of the schema are not in X, got None; pass target=."
        )
    return absent[0]
