"""Differentially private regression on tabular data: release once, regress for ever."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from ddssp.curate import release
    from ddssp.engine import Engine
    from ddssp.estimators import (
        DPLinearRegression,
        DPLogisticRegression,
        DPNaiveBayes,
        DPPoissonRegressor,
        DPRidge,
    )
    from ddssp.privacy.budget import Budget, BudgetError
    from ddssp.privacy.ledger import Ledger
    from ddssp.released import Release, load
    from ddssp.schema import Schema

_HOME = {
    "release": "ddssp.curate",
    "Engine": "ddssp.engine",
    "load": "ddssp.released",
    "Release": "ddssp.released",
    "Schema": "ddssp.schema",
    "Budget": "ddssp.privacy.budget",
    "BudgetError": "ddssp.privacy.budget",
    "Ledger": "ddssp.privacy.ledger",
    "DPLinearRegression": "ddssp.estimators",
    "DPLogisticRegression": "ddssp.estimators",
    "DPNaiveBayes": "ddssp.estimators",
    "DPPoissonRegressor": "ddssp.estimators",
    "DPRidge": "ddssp.estimators",
}

__all__ = [
    "Budget",
    "BudgetError",
    "DPLinearRegression",
    "DPLogisticRegression",
    "DPNaiveBayes",
    "DPPoissonRegressor",
    "DPRidge",
    "Engine",
    "Ledger",
    "Release",
    "Schema",
    "load",
    "release",
]


def __getattr__(name: str) -> Any:
    """Public names, loaded when first used."""
    if name not in _HOME:
        raise AttributeError(f"module 'ddssp' has no attribute {name!r}")
    from importlib import import_module

    value = globals()[name] = getattr(import_module(_HOME[name]), name)
    return value
