"""The demo: the whole way on a real survey, told so that a newcomer understands."""

from __future__ import annotations

import json
import sys

import pytest

import ddssp
from ddssp.cli import main

pytest.importorskip("statsmodels")


@pytest.fixture(scope="module")
def shown(tmp_path_factory):
    """One run: what it printed and the folder it left."""
    folder = tmp_path_factory.mktemp("demo")
    patch = pytest.MonkeyPatch()
    patch.chdir(folder)
    import contextlib
    import io

    out, err = io.StringIO(), io.StringIO()
    patch.setattr(sys, "argv", ["ddssp", "demo"])
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main()
            code = 0
        except SystemExit as stop:
            code = stop.code or 0
    patch.undo()
    return code, out.getvalue(), err.getvalue(), folder / "ddssp-demo"


def test_it_succeeds_and_leaves_schema_release_and_results(shown):
    code, _, _, folder = shown
    assert code == 0
    assert {"schema.toml", "survey.ddssp", "results.json"} <= {p.name for p in folder.iterdir()}


def test_it_shows_private_beside_exact_with_a_verdict_and_the_unit(shown):
    _, out, err, _ = shown
    for word in (
        "private",
        "exact",
        "Verdict:",
        "unit of privacy is a person-year",
        "5,912 people",
        "disea",
        "ddssp fit",
        "count as 20",
    ):
        assert word in out
    assert "RAND health survey" in err


def test_the_release_is_private_and_fits_any_target(shown):
    release = ddssp.load(shown[3] / "survey.ddssp")
    assert release.private
    assert release.budget == ddssp.Budget(epsilon=1.0, delta=1e-6)
    assert release.schema.unit == "person-year"
    assert set(release.linear("disea").coef) >= {"mdvis", "intercept"}


def test_the_schema_has_bins_for_tables_and_needs_no_confirmation(shown):
    schema = ddssp.Schema.load(shown[3] / "schema.toml")
    assert schema.to_confirm == ()
    assert schema.domain().sizes["mdvis"] == 21


def test_the_results_are_close_to_the_exact_ones(shown):
    """Predictions, not single coefficients: at ε = 1 the private fit explains nearly all that the exact one does."""
    results = json.loads((shown[3] / "results.json").read_text())
    rmse = results["rmse"]
    assert rmse["exact"] <= rmse["private"] < rmse["mean only"]
    assert (rmse["mean only"] - rmse["private"]) > 0.7 * (rmse["mean only"] - rmse["exact"])


def test_exact_coefficients_are_statsmodels(shown):
    import statsmodels.api as sm
    from statsmodels.datasets import randhie

    data = randhie.load_pandas().data
    features = sm.add_constant(data.drop(columns="mdvis"))
    expected = sm.OLS(data["mdvis"].clip(0, 20), features).fit().params
    got = json.loads((shown[3] / "results.json").read_text())["exact"]
    for name, value in expected.items():
        assert got["intercept" if name == "const" else name] == pytest.approx(value, rel=2e-3, abs=2e-3)


def test_it_does_not_write_over_files_that_are_not_its_own(tmp_path, monkeypatch, capsys):
    (tmp_path / "schema.toml").write_text("mine")
    monkeypatch.setattr(sys, "argv", ["ddssp", "demo", "-o", str(tmp_path)])
    with pytest.raises(SystemExit) as stop:
        main()
    assert stop.value.code == 2
    assert "holds files that are not the demo's" in capsys.readouterr().err
    assert [p.name for p in tmp_path.iterdir()] == ["schema.toml"]


def test_it_does_not_write_over_its_schema_once_somebody_has_edited_it(shown, monkeypatch, capsys):
    schema = shown[3] / "schema.toml"
    was = schema.read_text(encoding="utf-8")
    schema.write_text(was + "# mine\n", encoding="utf-8")
    monkeypatch.setattr(sys, "argv", ["ddssp", "demo", "-o", str(shown[3])])
    with pytest.raises(SystemExit) as stop:
        main()
    assert stop.value.code == 2
    assert schema.read_text(encoding="utf-8") == was + "# mine\n"
    schema.write_text(was, encoding="utf-8")


def test_it_may_be_run_again_and_as_json(shown, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["ddssp", "demo", "--json", "-o", str(shown[3])])
    with pytest.raises(SystemExit) as stop:
        main()
    assert not stop.value.code
    assert json.loads(capsys.readouterr().out)["unit"] == "person-year"
