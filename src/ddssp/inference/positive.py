r"""What is known to be positive: mean and variance of x ~ N(v, s²) given x > 0.

With m = φ(v/s) / Φ(v/s) the mean is v + s m and the variance s² (1 − m (m + v/s)). A count that noise has made negative is
small, and known to within about its own size.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr

Array = NDArray[np.float64]

FAR = -30.0
"""Further below 0, in standard deviations, both formulas lose their digits; x is exponential there, of mean s²/|v|."""


def positive(values: Array, sd: Array) -> tuple[Array, Array]:
    """Mean and variance given that it is positive, elementwise.

    Guarantees: the mean is positive and at least `values`; the standard deviation is at most the mean, and at most `sd`.
    """
    x = np.maximum(values / sd, FAR)
    m = np.exp(-(x**2) / 2 - np.log(2 * np.pi) / 2 - log_ndtr(x))
    far = values < FAR * sd
    mean = np.where(far, sd**2 / np.maximum(-values, sd), values + sd * m)
    variance = np.where(far, mean**2, sd**2 * (1 - m * (m + x)))
    return mean, np.clip(variance, 0, np.minimum(mean, sd) ** 2)
