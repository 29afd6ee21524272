"""Noise by several processes: the same distribution, every value in its place, and no answer taken for another's."""

from __future__ import annotations

import sys
import threading

import numpy as np
import pytest

from ddssp.secret import drawing
from ddssp.secret.noise import OpenDPNoise, draw_here


@pytest.fixture
def two(monkeypatch):
    """A second process, whatever this machine has."""
    monkeypatch.setattr(drawing, "_cores", lambda: 2)
    monkeypatch.setattr(drawing, "MANY", 100)


def require_noise(noise: np.ndarray, sigma: float, parts: int) -> None:
    """Each part's noise has the scale; false alarm below 1e-9 a part."""
    assert np.abs(noise).max() < 8 * sigma
    for part in np.array_split(noise, parts):
        error = 6.5 / np.sqrt(len(part))
        assert abs(part.std() / sigma - 1) < error / np.sqrt(2) + 1e-3  # a discrete one of σ = 1 is as wide to 1e-8
        assert abs(part.mean()) < error * sigma


@pytest.mark.parametrize("processes", [2, 3])
def test_every_value_gets_noise_of_its_scale_in_its_place(two, monkeypatch, processes):
    monkeypatch.setattr(drawing, "_cores", lambda: processes)
    values = np.arange(3001, dtype=np.int64) * 10**9
    for sigma in (1.0, 50.0):
        require_noise(OpenDPNoise().gaussian(values, sigma) - values, sigma, processes)


def test_processes_draw_differently(two):
    noise = OpenDPNoise().gaussian(np.zeros(2000, np.int64), 1e9)
    assert not np.intersect1d(noise[:1000], noise[1000:]).size > 2


def test_what_a_process_does_not_draw_is_drawn_here(two, monkeypatch):
    values = np.arange(1000, dtype=np.int64) * 10**9
    monkeypatch.setattr(drawing._Helper, "answer", lambda self, size: None)
    require_noise(drawing.drawn(values, 50.0, draw_here) - values, 50.0, 2)
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    require_noise(drawing.drawn(values, 50.0, draw_here) - values, 50.0, 2)


@pytest.mark.parametrize("serve", ["sys.exit(1)", "sys.stdout.buffer.write(bytes(8))", "os.kill(os.getpid(), 9)"])
def test_what_a_failing_process_answers_is_not_taken(two, monkeypatch, tmp_path, serve):
    (tmp_path / "python").write_text(f"#!{sys.executable}\nimport os, sys\nsys.stdin.buffer.read()\n{serve}\n")
    (tmp_path / "python").chmod(0o700)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    values = np.arange(1000, dtype=np.int64) * 10**9
    require_noise(drawing.drawn(values, 50.0, draw_here) - values, 50.0, 2)


def test_threads_never_get_each_others_answers(two):
    found: dict[int, np.ndarray] = {}

    def ask(size: int) -> None:
        found[size] = drawing.drawn(np.full(size, size * 10**6, np.int64), 1.0, draw_here)

    threads = [threading.Thread(target=ask, args=(size,)) for size in (300, 500, 900)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for size, values in found.items():
        assert np.abs(values - size * 10**6).max() < 8
    assert len(found) == 3


def test_an_interrupted_draw_leaves_nothing_for_the_next(two):
    def interrupted(values: np.ndarray, sigma: float) -> np.ndarray:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        drawing.drawn(np.full(400, 10**9, np.int64), 1.0, interrupted)
    assert np.abs(drawing.drawn(np.zeros(400, np.int64), 1.0, draw_here)).max() < 8


def test_few_values_stay_here(monkeypatch):
    monkeypatch.setattr(drawing, "_cores", lambda: pytest.fail("a process was started"))
    assert len(drawing.drawn(np.zeros(10, np.int64), 1.0, draw_here)) == 10


def test_modules_lying_around_are_not_run(tmp_path, monkeypatch):
    """A file in the folder that a release is made in must not come between the counts and their noise."""
    for name in ("struct", "numpy", "subprocess"):
        (tmp_path / f"{name}.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", [p for p in sys.path if p not in {"", str(tmp_path)}])
    helper = drawing._Helper.asked(np.zeros(5, np.int64), 1.0)
    assert helper is not None
    answer = helper.answer(5)
    helper.end()
    assert answer is not None
    assert not (tmp_path / "ran").exists()
