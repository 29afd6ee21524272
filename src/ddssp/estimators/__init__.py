"""scikit-learn estimators: `fit(X, y)` makes one private release, and the model is read off it. See docs/sklearn.md."""

from ddssp.estimators.base import PrivacyWarning
from ddssp.estimators.classifiers import DPLogisticRegression, DPNaiveBayes
from ddssp.estimators.regressors import DPLinearRegression, DPPoissonRegressor, DPRidge

__all__ = [
    "DPLinearRegression",
    "DPLogisticRegression",
    "DPNaiveBayes",
    "DPPoissonRegressor",
    "DPRidge",
    "PrivacyWarning",
]
