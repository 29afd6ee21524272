"""Intervals: the closed form where all is identified, coverage, and what is said where the noise hides a coefficient."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import statsmodels.api as sm
from model_tables import MIXED, exact, mixed, noisy

from ddssp.model import interval
from ddssp.model.interval import IntervalError
from ddssp.model.linear import linear
from ddssp.model.solve import Shrinkage, least_squares
from ddssp.schema import Schema

DATA = mixed(np.random.default_rng(0), n=30_000)
FEATURES = ["age", "hours", "smokes", "plan"]


def test_where_all_is_identified_the_variance_is_the_closed_form():
    """V = H⁻¹(s²H + C)H⁻¹ mapped to the original scale, C at the unshrunken solution."""
    release = noisy(DATA, MIXED, 20.0, 0)
    fit = release.linear("cost", features=FEATURES)
    e = fit.equations
    beta = least_squares(e.H, e.b)
    t = e.residual(beta)
    C = e.basis.T @ e.noise.covariance(np.outer(t, t)) @ e.basis
    inverse = np.linalg.pinv(e.H, rcond=1e-9)
    s2 = (e.yy - beta @ e.b) / (e.total - 6)
    privacy = np.sqrt(np.diag(e.readout @ inverse @ C @ inverse @ e.readout.T))
    sampling = np.sqrt(np.diag(e.readout @ inverse @ e.readout.T) * s2)
    half = fit.block.half
    assert np.allclose(fit.intervals.privacy, half * privacy, rtol=0.01)
    assert np.allclose(fit.intervals.sampling, half * sampling, rtol=0.01)
    unshrunken = half * (e.readout @ beta)
    unshrunken[0] += fit.block.centre
    assert np.allclose(fit.intervals.estimate, unshrunken, atol=0.05 * half * privacy)


def test_the_privacy_part_covers_the_exact_data_coefficient():
    """Of 7 × 120 intervals, not independent within a release: under 91.5 % in fewer than one run in a thousand.

    Half as wide they must not pass.
    """
    truth = np.array(list(exact(DATA, MIXED).linear("cost", features=FEATURES, shrinkage=Shrinkage.NONE).coef.values()))
    inside, half_inside, printed = 0, 0, 0
    for seed in range(120):
        found = noisy(DATA, MIXED, 1.0, seed, target="cost").linear("cost", features=FEATURES).intervals
        z = np.abs(found.estimate - truth)[found.identified] / found.privacy[found.identified]
        printed += len(z)
        inside += int((z < 1.96).sum())
        half_inside += int((z < 0.98).sum())
    assert printed > 0.9 * 120 * 6
    assert 0.915 < inside / printed < 0.985
    assert half_inside / printed < 0.8


def test_a_level_that_the_noise_hides_is_said_to_be_so():
    schema = Schema(
        columns={"plan": {"kind": "categorical", "levels": ["a", "b", "rare"]}, "y": {"kind": "numeric", "low": 0, "high": 1}}
    )
    rng = np.random.default_rng(0)
    plan = np.array(["a", "b"])[rng.integers(0, 2, 20_000)]
    plan[:10] = "rare"
    release = noisy({"plan": plan, "y": rng.random(20_000)}, schema, 0.5, 3)
    found = release.linear("y").intervals
    assert dict(zip(found.names, found.identified, strict=True)) == {"intercept": True, "plan=b": True, "plan=rare": False}
    assert np.isnan(found.estimate[2])
    with pytest.raises(IntervalError, match="not identified"):
        release.linear("y").wald(["plan=rare"])


def test_own_noise_is_that_of_drawn_noise_times_a_drawn_error_of_the_estimate():
    """Of 4,000 draws the variance is known to a few percent."""
    fit = noisy(DATA, MIXED, 0.2, 1, target="cost").linear("cost", features=FEATURES)
    e, r, rng = fit.equations, fit.inference.reading, np.random.default_rng(0)
    root = r.gain @ np.linalg.cholesky(r.seen.C)
    found, RE = r.read(e.readout), e.basis @ r.seen.sight
    drawn = [
        found.weights @ (RE.T @ (e.noise.draw(rng) @ (e.basis @ (root @ rng.normal(size=len(root.T)))))) for _ in range(4000)
    ]
    assert np.allclose(found.own, np.mean(np.square(drawn), axis=0), rtol=0.12)
    assert (found.own < found.noise).all()


def test_estimates_are_freed_of_the_bias_that_noise_in_H_gives_them():
    """A strong slope among many numbers: w'g alone is off by many standard errors of its mean over 150 draws of noise."""
    rng, names = np.random.default_rng(3), [f"x{i}" for i in range(24)]
    schema = Schema(columns={name: {"kind": "numeric", "low": -1, "high": 1} for name in [*names, "y"]})
    X = rng.normal(size=(12_000, 24)) * 0.25
    data = {name: X[:, i] for i, name in enumerate(names)} | {"y": 0.9 * X[:, 0] + rng.normal(size=12_000) * 0.02}
    held = exact(data, schema, 2.0)
    truth, bare, freed = held.linear("y", shrinkage="none").coef["x0"], [], []
    for _ in range(150):
        moments = replace(held.moments, matrix=held.moments.matrix + held.noise.draw(rng))
        fit = linear(moments, schema, "y", noise=held.noise)
        found = fit.inference.reading.read(fit.equations.readout[1:2])
        freed.append(found.estimate[0] - truth)
        bare.append(found.estimate[0] - found.pull[0] - truth)
    spread = np.std(bare) / np.sqrt(150)
    assert np.mean(bare) > 6 * spread
    assert abs(np.mean(freed)) < 3.5 * spread


def test_a_coefficient_whose_noise_rests_on_beta_too_much_is_not_identified(monkeypatch):
    release = noisy(DATA, MIXED, 0.2, 1, target="cost")
    fit = release.linear("cost", features=FEATURES)
    found = fit.inference.reading.read(fit.equations.readout)
    share = found.own / found.noise
    monkeypatch.setattr(interval, "OWN_SHARE", float(np.median(share)))
    known = release.linear("cost", features=FEATURES).intervals.identified
    assert not known[share > np.median(share)].any()
    assert known[share <= np.median(share)].any()


def test_where_few_coefficients_would_be_identified_none_is(monkeypatch):
    release = noisy(DATA, MIXED, 0.2, 1, target="cost")
    passed = release.linear("cost", features=FEATURES).intervals.identified
    share = passed.mean()
    assert share > 0
    for few, known in ((share, passed), (share + 1e-9, np.zeros_like(passed))):
        monkeypatch.setattr(interval, "FEW", few)
        assert np.array_equal(release.linear("cost", features=FEATURES).intervals.identified, known)


def test_columns_that_repeat_each_other_are_not_identified():
    schema = Schema(columns={name: {"kind": "numeric", "low": -3, "high": 3} for name in ("x", "twin", "w", "y")})
    rng = np.random.default_rng(1)
    x, w = rng.normal(size=(2, 20_000))
    release = noisy({"x": x, "twin": x, "w": w, "y": 0.4 * x + 0.3 * w}, schema, 2.0, 0)
    found = release.linear("y").intervals
    known = dict(zip(found.names, found.identified, strict=True))
    assert not known["x"]
    assert not known["twin"]
    assert release.linear("y", features=["x", "w"]).intervals.identified.all()


def test_wald_test_is_statsmodels_on_exact_statistics():
    data = mixed(np.random.default_rng(4), n=20_000)
    X = np.column_stack([np.ones(20_000), data["age"], data["hours"], data["smokes"], data["plan"] == "b", data["plan"] == "c"])
    judge = sm.OLS(data["cost"], X.astype(float)).fit()
    fit = exact(data, MIXED).linear("cost", features=FEATURES)
    for names, rows in ((["plan=b", "plan=c"], [4, 5]), (["hours"], [2]), (["intercept", "smokes"], [0, 3])):
        expected = judge.wald_test(np.eye(6)[rows], use_f=False, scalar=True)
        found = fit.wald(names)
        assert found.df == len(rows)
        assert found.statistic == pytest.approx(expected.statistic, rel=0.03)  # ε = 100 still has a little noise
    assert fit.wald(["hours"]).statistic == pytest.approx(fit.intervals.z[2] ** 2, rel=1e-6)


def test_wald_statistic_of_coefficients_that_are_nil_is_chi_squared():
    """Mean of 150 χ²₂ is 2 ± 0.16; beyond 0.6 less than once in a thousand runs."""
    statistics = []
    for seed in range(150):
        data = mixed(np.random.default_rng(seed), n=5000)
        data["plan"] = np.random.default_rng(seed + 1).permutation(data["plan"])
        statistics.append(
            noisy(data, MIXED, 2.0, seed).linear("cost", features=["hours", "plan"]).wald(["plan=b", "plan=c"]).statistic
        )
    assert np.mean(statistics) == pytest.approx(2.0, abs=0.6)


def test_intervals_widen_with_the_level_and_with_privacy():
    fit = noisy(DATA, MIXED, 1.0, 0).linear("cost", features=FEATURES)
    narrow, wide = fit.conf_int(0.5)["hours"], fit.conf_int(0.99)["hours"]
    assert wide[0] < narrow[0] < narrow[1] < wide[1]
    tighter = noisy(DATA, MIXED, 0.5, 0).linear("cost", features=FEATURES)
    assert tighter.stderr["hours"] > fit.stderr["hours"]
    with pytest.raises(ValueError, match="level must lie strictly between 0 and 1"):
        fit.conf_int(1.0)
    with pytest.raises(ValueError, match="names must be coefficients"):
        fit.wald(["nope"])
    with pytest.raises(ValueError, match="at least one coefficient"):
        fit.wald([])
    with pytest.raises(ValueError, match="different coefficients, got 'hours' more than once"):
        fit.wald(["hours", "hours"])


def test_relabelling_levels_permutes_and_changes_nothing_else():
    order = {"a": "c", "b": "a", "c": "b"}
    data = DATA | {"plan": np.array([order[v] for v in DATA["plan"]])}
    first = exact(DATA, MIXED).linear("cost", features=FEATURES)
    second = exact(data, MIXED).linear("cost", features=FEATURES)
    i, j = (dict(zip(f.intervals.names, f.intervals.stderr, strict=True)) for f in (first, second))
    assert i["hours"] == pytest.approx(j["hours"], rel=1e-6)
    assert first.coef["hours"] == pytest.approx(second.coef["hours"], rel=1e-6)
