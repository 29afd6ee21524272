r"""AdaSSP (Wang 2018): a share of (ε, δ) each for λ_min, X'X and X'y; the ridge follows the released λ_min.

    s_a = √log(2/δ_a) / ε_a   with (ε_a, δ_a) = share_a · (ε, δ) for a = λ, XX, Xy
    λ̃_min = max(λ_min + s_λ ‖X‖² Z − log(6/δ) ‖X‖² / ε_λ, 0)
    λ = max(0, √(d log(2/δ_λ) log(2d²/ρ)) ‖X‖² / ε_λ − λ̃_min)
    θ = (X'X + s_XX ‖X‖² Z + λI)⁻¹ (X'y + s_Xy ‖X‖‖Y‖ Z)

The paper's appendix prints equal thirds. The paper's code gives X'y a twentieth of the last two thirds, ε/30: ten times the
noise on X'y, which is what hurts most.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ddssp.experiments.noise import perturbed, perturbed_symmetric
from ddssp.secret.noise import Noise

Array = NDArray[np.float64]

FAILURE = 0.05
"""ρ of the algorithm: the chance with which its ridge is too small."""


@dataclass(frozen=True, kw_only=True)
class Shares:
    """How (ε, δ) is divided; adds up to 1."""

    smallest: float
    XtX: float
    Xty: float


AS_PRINTED = Shares(smallest=1 / 3, XtX=1 / 3, Xty=1 / 3)
AS_IN_CODE = Shares(smallest=1 / 3, XtX=2 / 3 * 0.95, Xty=2 / 3 * 0.05)


def adassp(
    XtX: Array, Xty: Array, *, bound: float, epsilon: float, delta: float, noise: Noise, shares: Shares = AS_PRINTED
) -> Array:
    """θ for |y| ≤ 1 and rows of norm at most `bound`."""
    d, square = len(Xty), bound**2

    def s(share: float) -> float:
        return float(np.sqrt(np.log(2 / (share * delta))) / (share * epsilon))

    smallest = perturbed(np.asarray(np.linalg.eigvalsh(XtX)[:1], np.float64), s(shares.smallest) * square, noise)[0]
    released = max(float(smallest) - np.log(6 / delta) * square / (shares.smallest * epsilon), 0.0)
    ridge = max(0.0, s(shares.smallest) * np.sqrt(d * np.log(2 * d**2 / FAILURE)) * square - released)
    H = perturbed_symmetric(XtX, s(shares.XtX) * square, noise)
    return np.asarray(np.linalg.solve(H + ridge * np.eye(d), perturbed(Xty, s(shares.Xty) * bound, noise)))
