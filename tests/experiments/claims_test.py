"""Verdicts on made runs, summaries and the page's two languages."""

from __future__ import annotations

import math

import pytest

from ddssp.experiments import paper
from ddssp.experiments.claims import Verdict, claims
from ddssp.experiments.leaderboard import geometric_mean
from ddssp.experiments.page import Heading, Image, Paragraph, Table, html, markdown
from ddssp.experiments.records import Cell
from ddssp.experiments.report import deviation
from ddssp.experiments.summary import Mean, Summary

DOMAINS = {"adult": 3.0, "ACSincome-LIN": 2.0, "ACSincome": 1.0, "fire": 5.0}


def run(kind, dataset, method, epsilon, seed, score, seconds=1.0, model_size=None):
    cell = Cell(protocol="paper", kind=kind, dataset=dataset, method=method, epsilon=epsilon, seed=seed, model_size=model_size)
    return cell.record(substitute=False, seconds=seconds, peak_mb=1.0, **{"mse" if kind == "linear" else "auc": score})


def runs(*, ddssp_mse=0.01, synth_mse=0.0101, ddssp_auc=0.86, synth_auc=0.855, growth=3.0):
    out = []
    for epsilon in (0.1, 1.0):
        for seed in range(3):
            for name in ("adult", "ACSincome-LIN", "fire"):
                mse = 0.2 if name == "ACSincome-LIN" else ddssp_mse
                seconds = DOMAINS[name] * (growth if epsilon == 1 else 1)
                out.append(run("linear", name, "ddssp", epsilon, seed, mse + 1e-4 * seed, seconds, 8.0))
                out.append(run("linear", name, "aim-synth", epsilon, seed, mse + synth_mse - ddssp_mse, 1.0, 8.0))
                out.append(run("linear", name, "adassp", epsilon, seed, 0.21 if name == "ACSincome-LIN" else 0.05))
            for name in ("adult", "ACSincome"):
                out.append(run("logistic", name, "ddssp", epsilon, seed, ddssp_auc, DOMAINS[name] * growth**epsilon, 8.0))
                out.append(run("logistic", name, "aim-synth", epsilon, seed, synth_auc, 1.0, 8.0))
                out.append(run("logistic", name, "objpert", epsilon, seed, 0.8 if epsilon < 1 else 0.87))
    return Summary(out, "paper")


def verdicts(summary):
    return [c.verdict for c in claims(summary, DOMAINS)]


def test_all_hold():
    assert verdicts(runs()) == [Verdict.HOLDS] * 5


@pytest.mark.parametrize(
    ("change", "which", "verdict"),
    [
        ({"synth_mse": 0.02, "synth_auc": 0.8}, 0, Verdict.FAILS),
        ({"synth_auc": 0.8}, 0, Verdict.PART),
        ({"ddssp_mse": 0.06, "synth_mse": 0.06}, 1, Verdict.FAILS),
        ({"ddssp_auc": 0.7, "synth_auc": 0.7}, 2, Verdict.FAILS),
        ({"synth_auc": 0.861}, 3, Verdict.FAILS),
        ({"growth": 0.5}, 4, Verdict.FAILS),
    ],
)
def test_a_claim_can_fail(change, which, verdict):
    assert verdicts(runs(**change))[which] is verdict


def test_nothing_measured():
    assert verdicts(Summary([], "paper")) == [Verdict.UNKNOWN] * 5
    assert verdicts(Summary([run("linear", "adult", "adassp", 1.0, 0, 0.1)], "ours")) == [Verdict.UNKNOWN] * 5


def test_cells_that_disagree_are_in_brackets():
    claim = claims(runs(synth_auc=0.861), DOMAINS)[3]
    assert claim.table.rows[0][1].startswith("[-0.0010")
    assert claim.measured == "above in 0 of 4 cells; on average over ε adult -0.0010, ACSincome -0.0010"


def test_means_and_differences():
    summary = Summary([run("linear", "d", m, 1.0, s, v + s) for m, v in (("ssp", 1), ("adassp", 3)) for s in (0, 2)], "paper")
    assert summary.mean("linear", "d", "ssp", 1.0) == Mean(value=2.0, error=pytest.approx(1.0), trials=2)
    assert summary.difference("linear", "d", ("ssp", "adassp"), 1.0) == Mean(value=-2.0, error=0.0, trials=2)
    assert summary.mean("linear", "d", "ssp", 2.0) is None
    assert math.isnan(Mean.of([1.0]).error)
    assert geometric_mean([1.0, 4.0]) == pytest.approx(2.0)


def test_the_largest_graphical_model_counts():
    both = [
        run("linear", "d", "ddssp", 1.0, 0, 0.1, model_size=200.0),
        run("linear", "d", "ddssp", 1.0, 0, 0.5, model_size=8.0),
    ]
    assert Summary(both, "paper").values("linear", "d", "ddssp", 1.0) == {0: 0.1}


def test_deviation_allows_for_the_others_trials_and_rounding():
    known = paper.Measured(value=0.10, step=0.01, trials=(4, 10))
    ours = Mean(value=0.13, error=0.01, trials=4)
    assert deviation(ours, known) == pytest.approx(0.03 / math.sqrt(0.01**2 + 0.02**2 / 4 + 0.01**2 / 12))


def test_figures_to_compare_with_keep_their_digits():
    sweep = paper.MEASURED["paper", "linear", "adult", "adassp"]
    assert (sweep[1.0].value, sweep[1.0].step) == (0.050, pytest.approx(0.001))


def test_page_in_two_languages():
    parts = [Heading("A < B", 1), Paragraph("x & `y`"), Table(["m|n", "v"], [["a", "1"]]), Image("f.svg", "a figure")]
    assert markdown(parts) == "# A < B\n\nx & `y`\n\n| m\\|n | v |\n| --- | ---: |\n| a | 1 |\n\n![a figure](f.svg)\n"
    page = html("t", parts)
    for found in (
        "<h1>A &lt; B</h1>",
        "<p>x &amp; <code>y</code></p>",
        '<th class="word">m|n</th>',
        "<td>1</td>",
        '<img src="f.svg" alt="a figure">',
    ):
        assert found in page
