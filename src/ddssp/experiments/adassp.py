r"""AdaSSP (Wang 2018) as printed in the paper's appendix: a third of (ε, δ) each for λ_min, X'X and X'y.

λ̃_min = max(λ_min + s‖X‖² Z − log(6/δ)‖X‖²/(ε/3), 0),   s = √log(6/δ)/(ε/3)
λ = max(0, √(d log(6/δ) log(2d²/ρ)) ‖X‖²/(ε/3) − λ̃_min),   θ = (X'X + s‖X‖² Z + λI)⁻¹ (X'y + s‖X‖‖Y‖ Z)
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ddssp.experiments.ssp import symmetric_noise

Array = NDArray[np.float64]

FAILURE = 0.05
"""ρ of the algorithm: the chance with which its ridge is too small."""


def adassp(XtX: Array, Xty: Array, *, bound: float, epsilon: float, delta: float, rng: np.random.Generator) -> Array:
    """θ for |y| ≤ 1 and rows of norm at most `bound`."""
    d, third, log = len(Xty), epsilon / 3, float(np.log(6 / delta))
    s = np.sqrt(log) / third
    smallest = float(np.linalg.eigvalsh(XtX)[0])
    released = max(smallest + s * bound**2 * rng.normal() - log / third * bound**2, 0.0)
    ridge = max(0.0, np.sqrt(d * log * np.log(2 * d**2 / FAILURE)) * bound**2 / third - released)
    H = XtX + symmetric_noise(d, s * bound**2, rng)
    return np.asarray(np.linalg.solve(H + ridge * np.eye(d), Xty + s * bound * rng.normal(size=d)))
