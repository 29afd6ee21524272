"""Noise by several processes: the same distribution, every value in its place, and a failure that is noticed."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from ddssp.secret import drawing
from ddssp.secret.noise import OpenDPNoise, draw_here


@pytest.fixture
def two(monkeypatch):
    """A second process, whatever this machine has."""
    helper = drawing._Helper()
    monkeypatch.setattr(drawing, "_helpers", lambda _process: (helper,))
    monkeypatch.setattr(drawing, "MANY", 100)
    yield helper
    helper._process.kill()
    helper._process.wait()


def test_every_value_gets_noise_of_its_scale_in_its_place(two):
    values = np.arange(3001, dtype=np.int64) * 10**9
    for sigma in (1.0, 50.0):
        noise = OpenDPNoise().gaussian(values, sigma) - values
        assert np.abs(noise).max() < 8 * sigma  # false alarm: 4e-12
        for half in (noise[:1500], noise[1501:]):
            assert abs(half.std() / sigma - 1) < 0.12  # 6.5 standard errors
            assert abs(half.mean()) < 0.17 * sigma  # 6.5 standard errors


def test_processes_draw_differently(two):
    noise = OpenDPNoise().gaussian(np.zeros(2000, np.int64), 1e9)
    assert not np.intersect1d(noise[:1000], noise[1000:]).size > 2


def test_a_process_that_ends_is_noticed(two):
    two._process.kill()
    two._process.wait()
    with pytest.raises(BrokenPipeError):
        OpenDPNoise().gaussian(np.zeros(200, np.int64), 1.0)


def test_few_values_stay_here(monkeypatch):
    monkeypatch.setattr(drawing, "_helpers", lambda _process: pytest.fail("a process was started"))
    assert len(drawing.drawn(np.zeros(10, np.int64), 1.0, draw_here)) == 10


def test_modules_lying_around_are_not_run(tmp_path, monkeypatch):
    """A file in the folder that a release is made in must not come between the counts and their noise."""
    for name in ("struct", "numpy", "subprocess"):
        (tmp_path / f"{name}.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", [p for p in sys.path if p not in {"", str(tmp_path)}])
    helper = drawing._Helper()
    helper.ask(np.zeros(5, np.int64), 1.0)
    assert len(helper.answer(5)) == 5
    helper._process.kill()
    helper._process.wait()
    assert not (tmp_path / "ran").exists()
