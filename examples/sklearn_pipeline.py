"""Private logistic regression inside scikit-learn: a pipeline, five folds charged to one ledger, and the fit that is refused.

Run: python examples/sklearn_pipeline.py
"""

from __future__ import annotations

import tempfile

import numpy as np
import pandas as pd
from sklearn.compose import ColumnTransformer
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

import ddssp

SCHEMA = ddssp.Schema(
    name="survey",
    unit="person",
    columns={
        "age": {"kind": "numeric", "low": 18, "high": 90},
        "log_income": {"kind": "numeric", "low": 6, "high": 14},
        "plan": {"kind": "categorical", "levels": ["basic", "plus", "none"]},
        "insured": {"kind": "boolean", "levels": ["no", "yes"]},
    },
)


def people(n: int, rng: np.random.Generator) -> tuple[pd.DataFrame, pd.Series]:
    """A made-up survey; one income in a hundred is missing."""
    age, income = rng.uniform(18, 90, n), rng.lognormal(10, 0.8, n)
    plan = rng.choice(["basic", "plus", "none"], n)
    score = (age - 50) / 15 + (np.log(income) - 10) + np.where(plan == "none", -1.0, 0.5)
    income[rng.random(n) < 0.01] = np.nan
    insured = np.where(rng.random(n) < 1 / (1 + np.exp(-score)), "yes", "no")
    return pd.DataFrame({"income": income, "age": age, "plan": plan}), pd.Series(insured, name="insured")


def main() -> None:
    X, y = people(20_000, np.random.default_rng(0))
    with tempfile.TemporaryDirectory() as folder:
        ledger = ddssp.Ledger(f"{folder}/ledger.db")
        ledger.set_budget("survey", epsilon=2.0, delta=1e-6)

        # The logarithm is the same function for every row, so it may stand before a private model. A scaler that is fitted
        # to the rows may not: the schema's bounds do its work.
        log = FunctionTransformer(np.log, feature_names_out=lambda _self, _names: ["log_income"])
        columns = ColumnTransformer([("log", log, ["income"]), ("keep", "passthrough", ["age", "plan"])])
        columns.set_params(verbose_feature_names_out=False).set_output(transform="pandas")
        private = ddssp.DPLogisticRegression(epsilon=0.8, delta=1e-6, schema=SCHEMA, ledger=ledger)
        model = make_pipeline(columns, private)

        scores = cross_val_score(model, X, y, cv=5, scoring="roc_auc", error_score="raise")
        print(f"AUC of five folds: {scores.mean():.3f} (computed from the held-out rows: for the owner's eyes)")
        (account,) = ledger.datasets()
        print(f"five releases at ε = 0.8 are together ε = {account.epsilon_spent:.2f} of {account.epsilon:g}")
        try:
            model.fit(X, y)
        except ddssp.BudgetError as refusal:
            print(f"refused: {refusal}")


if __name__ == "__main__":
    main()
