"""`ddssp audit`: says what it found, and fails when a claim is broken."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from ddssp.audit import worlds
from ddssp.cli import app


def audit(*arguments: str):
    return CliRunner().invoke(app, ["audit", "--epsilon", "8", "--runs", "2000", *arguments])


def test_the_products_noise_keeps_its_promise_and_the_twin_is_caught():
    got = audit("--only", "gaussian,selection", "--json")
    assert got.exit_code == 0
    found = json.loads(got.stdout)
    assert [f["audit"] for f in found] == ["gaussian", "selection"]
    assert all(f["kept"] and f["twin_caught"] and 0.5 * f["claim"] < f["bound"] <= f["claim"] for f in found)


def test_a_broken_claim_is_told_and_fails(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("ddssp.curate.product_noise", worlds.Weakened)
    got = audit("--only", "gaussian")
    assert got.exit_code == 2
    assert "BROKEN" in got.stdout


def test_an_unknown_audit_is_refused():
    got = audit("--only", "laplace")
    assert "only must name audits among gaussian, selection, moments, aim, got 'laplace'" in str(got.exception)
