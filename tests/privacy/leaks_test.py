"""What leaves the building besides released values: nothing. See docs/leaks.md for each way out and what closes it."""

from __future__ import annotations

import ast
import json
import math
import resource
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ddssp.curate import curate, plan
from ddssp.experiments.noise import SeededNoise
from ddssp.privacy.curator import Query
from ddssp.schema import Schema

SOURCE = Path(__file__).resolve().parents[2] / "src" / "ddssp"
SCHEMA = Schema(
    columns={
        "x": {"kind": "numeric", "low": -1, "high": 1, "bins": 4, "indicator": True},
        "c": {"kind": "categorical", "levels": ["a", "b", "c"], "other": "rest"},
        "y": {"kind": "boolean"},
    }
)
ROWS: dict[str, list[Any]] = {"x": [0.5, -0.2, 0.9, None] * 5, "c": ["a", "b", "c", "zz"] * 5, "y": [0, 1, 1, 0] * 5}
NEIGHBOURS: dict[str, dict[str, list[Any]]] = {
    "one record less": {k: v[1:] for k, v in ROWS.items()},
    "an extreme record more": {"x": [*ROWS["x"], 1e300], "c": [*ROWS["c"], "c"], "y": [*ROWS["y"], 1]},
    "an undeclared record more": {"x": [*ROWS["x"], "n/a"], "c": [*ROWS["c"], "=cmd()"], "y": [*ROWS["y"], "maybe"]},
    "a missing record more": {k: [*v, None] for k, v in ROWS.items()},
    "another order": {k: v[::-1] for k, v in ROWS.items()},
    "nobody": {k: [] for k in ROWS},
}
MECHANISMS = ("moments", "aim", "task")


class Recorded(SeededNoise):
    """Seeded noise that keeps what it was asked for and what it answered."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.asked: list[tuple[str, int, float]] = []
        self.answers: list[Any] = []

    def gaussian(self, values, sigma):
        self.asked.append(("gaussian", len(values), sigma))
        self.answers.append(super().gaussian(values, sigma))
        return self.answers[-1]

    def noisy_max(self, scores, scale):
        self.asked.append(("max", len(scores), scale))
        self.answers.append(super().noisy_max(scores, scale))
        return self.answers[-1]


class Replayed:
    """Frozen noise: whatever the rows are, the released values are those of another run."""

    private = False

    def __init__(self, record: Recorded) -> None:
        self.asked: list[tuple[str, int, float]] = []
        self._answers = iter(record.answers)

    def gaussian(self, values, sigma):
        self.asked.append(("gaussian", len(values), sigma))
        return next(self._answers)

    def noisy_max(self, scores, scale):
        self.asked.append(("max", len(scores), scale))
        return next(self._answers)


def run(rows, mechanism: str, noise) -> tuple[bytes, list[tuple[str, float]]]:
    told: list[tuple[str, float]] = []
    made = plan(SCHEMA, epsilon=2.0, delta=1e-6, mechanism=mechanism, target="y")
    release = curate(rows, made, noise=noise, progress=lambda what, share: told.append((what, share)))
    return release.to_bytes(), [(what, share) for what, share in told if what != "counting"]


@pytest.mark.parametrize("neighbour", NEIGHBOURS)
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_with_released_values_frozen_nothing_else_depends_on_the_rows(mechanism, neighbour):
    """The file byte for byte, all questions to the noise, all progress after counting: functions of the released values."""
    record = Recorded(3)
    file, told = run(ROWS, mechanism, record)
    replay = Replayed(record)
    assert run(NEIGHBOURS[neighbour], mechanism, replay) == (file, told)
    assert replay.asked == record.asked


class Transcript:
    """A Curator between a mechanism and another Curator, or a record of one: keeps every question and answer."""

    def __init__(self, behind: Any, answers: Iterator[Any] | None = None) -> None:
        self._behind, self._answers = behind, answers
        self.said: list[Any] = []
        self.answered: list[Any] = []

    def _pass(self, question: Any, ask: Any) -> Any:
        self.said.append(question)
        self.answered.append(ask() if self._answers is None else next(self._answers))
        return self.answered[-1]

    @property
    def remaining(self):
        return self._pass("remaining", lambda: self._behind.remaining)

    def measure(self, queries, sigmas):
        question = ("measure", [_named(q) for q in queries], [float(s) for s in sigmas])
        return self._pass(question, lambda: self._behind.measure(queries, sigmas))

    def select(self, candidates, epsilon):
        parts = (
            candidates.cliques,
            candidates.weights.tolist(),
            candidates.penalties.tolist(),
            candidates.estimate.burt.tolist(),
        )
        return self._pass(("select", *parts, epsilon), lambda: self._behind.select(candidates, epsilon))

    def residuals(self, asked):
        levels = [None if c is None else c.tolist() for c in asked.clips]
        question = ("residuals", asked.working.theta.tolist(), asked.clip, levels, asked.sigmas, asked.edges, asked.sigma_bins)
        return self._pass(question, lambda: self._behind.residuals(asked))

    def minimise(self, asked):
        question = ("minimise", asked.anchor.tolist(), asked.ridge.tolist(), asked.sigmas, asked.sigma_steps, asked.total)
        return self._pass(question, lambda: self._behind.minimise(asked))


def _named(query: Query) -> tuple[Any, ...]:
    return query.clique, query.shape, query.form


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_mechanism_without_any_data_repeats_itself_word_for_word(mechanism, monkeypatch):
    """What a mechanism asks follows from what it was answered: it has no other way to the rows, no clock, no dice."""
    made = plan(SCHEMA, epsilon=2.0, delta=1e-6, mechanism=mechanism, target="y")
    kept: list[Transcript] = []

    own = type(made.mechanism).run

    def listening(self, curator, schema, progress):
        kept.append(Transcript(curator))
        return own(self, kept[-1], schema, progress)

    with monkeypatch.context() as patch:
        patch.setattr(type(made.mechanism), "run", listening)
        first = curate(ROWS, made, noise=SeededNoise(8))
    record = kept[0]
    assert len(record.said) >= 2
    replay = Transcript(None, iter(record.answered))
    outcome = made.mechanism.run(replay, SCHEMA, lambda _what, _share: None)
    assert replay.said == record.said
    assert all(np.array_equal(a.values, b.values) for a, b in zip(outcome.measurements, first.measurements, strict=True))


# --- randomness ---------------------------------------------------------------------------------------------------

RANDOM = {"random", "secrets", "uuid", "urandom", "getrandom", "default_rng", "RandomState", "SystemRandom", "token_bytes"}
MAY = {
    "secret/people.py": {"urandom"},  # which of a person's rows count
    "secret/engines/spark.py": {"uuid", "uuid4"},  # the name of a job, to ask how far it is
    "privacy/ledger_file.py": {"secrets", "token_bytes"},  # the key of a ledger's fingerprints
    "reproducible.py": {"random", "default_rng"},  # the seeded twin, for tests and experiments; marks what it makes
    "synth.py": {"random", "default_rng"},  # synthetic rows, from released values
    "gradual.py": {"random"},  # the same; types only
}
SAMPLERS = {"random"}  # inference/: `np.random.Generator` in signatures of samplers that synth calls


def sources_of_chance(tree: ast.AST) -> set[str]:
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            parts = [getattr(node, "module", None) or "", *(alias.name for alias in node.names)]
            found |= {p for part in parts for p in part.split(".")} & RANDOM
        elif isinstance(node, ast.Attribute) and node.attr in RANDOM:
            found.add(node.attr)
        elif isinstance(node, ast.Name) and node.id in RANDOM:
            found.add(node.id)
    return found


def unexpected(root: Path) -> list[str]:
    out = []
    for path in sorted(root.rglob("*.py")):
        name = path.relative_to(root).as_posix()
        if name.startswith("experiments/"):
            continue
        allowed = MAY.get(name, set()) | (SAMPLERS if name.startswith("inference/") else set())
        out += [f"{name}: {word}" for word in sorted(sources_of_chance(ast.parse(path.read_text(encoding="utf-8"))) - allowed)]
    return out


def test_there_is_no_other_source_of_randomness():
    assert unexpected(SOURCE) == []


@pytest.mark.parametrize(
    "victim", ["secret/vault.py", "secret/noise.py", "curate.py", "mechanism/aim.py", "privacy/curator.py"]
)
@pytest.mark.parametrize(
    "planted",
    [
        "import random",
        "from numpy.random import default_rng",
        "x = np.random.normal()",
        "import os\nx = os.urandom(8)",
        "import secrets",
    ],
)
def test_a_planted_source_of_randomness_is_noticed(victim, planted, tmp_path):
    path = tmp_path / victim
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text((SOURCE / victim).read_text(encoding="utf-8") + "\n" + planted + "\n", encoding="utf-8")
    assert unexpected(tmp_path)


def test_inference_draws_only_for_synthetic_rows():
    """The one exception above: no generator is made in inference/, only taken by what synth calls."""
    for path in (SOURCE / "inference").glob("*.py"):
        calls = [n for n in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(n, ast.Call)]
        assert not [c for c in calls if "np.random" in ast.unparse(c.func)]


WARNS = {
    "curate.py": [
        "f'the release is made and paid for, but the ledger could not note that it is complete: {error}'",
    ],
    "kernel.py": [
        "'numba can keep its compiled code nowhere and compiles anew; set NUMBA_CACHE_DIR to a folder that can be written.'",
        "f'numba is installed but does not load ({type(error).__name__}); numpy counts the same, slower.'",
    ],
}
"""All that the secret side says by itself: about the machine and the ledger, never about rows."""


def test_the_secret_side_says_nothing_by_itself():
    """No prints, logs, warnings or debugging files where rows and exact counts are."""
    for path in [*(SOURCE / "secret").rglob("*.py"), SOURCE / "curate.py", *(SOURCE / "mechanism").glob("*.py")]:
        tree = ast.parse(path.read_text(encoding="utf-8"))
        warned = [n for n in ast.walk(tree) if isinstance(n, ast.Call) and ast.unparse(n.func) == "warn"]
        assert [ast.unparse(call.args[0]) for call in warned] == WARNS.get(path.name, []), path
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and (node.module, [a.name for a in node.names]) == ("warnings", ["warn"]):
                continue
            if isinstance(node, ast.Name):
                assert node.id not in {"print", "logging", "warnings", "breakpoint"}, path
            if isinstance(node, ast.Import | ast.ImportFrom):
                named = [getattr(node, "module", "") or "", *(a.name for a in node.names)]
                assert not {"logging", "warnings", "tempfile", "pickle", "faulthandler"} & set(named), path


# --- the process --------------------------------------------------------------------------------------------------

TOML = '[columns.x]\nkind = "numeric"\nlow = 0\nhigh = 1\n[columns.y]\nkind = "boolean"\n'
WATCH = """
import json, sys
opened = []
def hook(event, arguments):
    if event == "open" and isinstance(arguments[0], str) and isinstance(arguments[2], int):
        if arguments[2] & 3:  # written to
            opened.append(arguments[0])
    elif event in ("subprocess.Popen", "os.exec", "os.system", "socket.connect"):
        opened.append(event)
sys.addaudithook(hook)
sys.dont_write_bytecode = True
from ddssp.cli import app
try:
    app(sys.argv[1:], standalone_mode=False)
finally:
    print(json.dumps(opened))
"""


def cli(folder: Path, *arguments: str, code: str = "from ddssp.cli import main; main()") -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code, *arguments], cwd=folder, capture_output=True, text=True)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "s.toml").write_text(TOML)
    (tmp_path / "d.csv").write_text("x,y\n0.5,1\nS3CR3T,S3CR3T\n")
    return tmp_path


RELEASE = ("release", "d.csv", "-s", "s.toml", "-e", "1", "-d", "1e-6", "-o", "r.ddssp")


def test_a_release_writes_its_file_and_nothing_else_and_calls_nobody(folder):
    got = cli(folder, *RELEASE, code=WATCH)
    assert got.returncode == 0, got.stderr
    opened = json.loads(got.stdout.splitlines()[-1])
    assert {Path(p).name.split(".draft-")[0] for p in opened} == {".r.ddssp"}
    assert sorted(p.name for p in folder.iterdir()) == ["d.csv", "r.ddssp", "s.toml"]


def test_what_is_said_does_not_depend_on_the_rows(folder):
    first = cli(folder, *RELEASE)
    (folder / "d.csv").write_text("x,y\n" + "1e9,maybe\n" * 3000)
    second = cli(folder, *RELEASE, "--force")
    assert (first.returncode, first.stdout, first.stderr) == (second.returncode, second.stdout, second.stderr)
    assert "S3CR3T" not in first.stderr


def test_a_failure_while_rows_are_counted_quotes_none_of_them(folder):
    """Not in the message, nor in a traceback: the cause is cut off where its text could hold a cell."""
    code = (
        "import ddssp.secret.counts as c\n"
        "def explode(*a): raise RuntimeError('S3CR3T in cell 2')\n"
        "c.coded = explode\n"
        "from ddssp.cli import main; main()"
    )
    got = cli(folder, *RELEASE, code=code)
    assert got.returncode == 2
    assert got.stderr.strip() == "error: the rows could not be counted (RuntimeError); nothing was drawn or spent."
    assert not (folder / "r.ddssp").exists()


def test_no_core_is_dumped_while_rows_are_in_memory(folder):
    code = (
        "import resource, signal, os\n"
        "import ddssp.curate as c\n"
        "def look(*a, **k): print('limit', resource.getrlimit(resource.RLIMIT_CORE)[0]); raise ValueError('seen.')\n"
        "c.curate = look\n"
        "from ddssp.cli import main; main()"
    )
    hard = resource.getrlimit(resource.RLIMIT_CORE)[1]
    got = subprocess.run(
        [sys.executable, "-c", code, *RELEASE],
        cwd=folder,
        capture_output=True,
        text=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CORE, (hard, hard)),
    )
    assert "limit 0" in got.stdout


def test_file_sizes_do_not_tell_the_number_of_records():
    sizes = {len(run(NEIGHBOURS[n], "moments", SeededNoise(1))[0]) for n in NEIGHBOURS}
    many = {k: v * 500 for k, v in ROWS.items()}
    assert sizes == {len(run(many, "moments", SeededNoise(2))[0])}


def test_the_order_of_rows_and_the_place_of_levels_do_not_show():
    """Levels keep the schema's order, whichever the rows show first."""
    for rows in (ROWS, NEIGHBOURS["another order"]):
        made = plan(SCHEMA, epsilon=1, delta=1e-6, mechanism="moments")
        names = curate(rows, made, noise=SeededNoise(0)).encoding.names
        assert [n for n in names if n.startswith("c=")] == ["c=a", "c=b", "c=c", "c=rest"]


def test_released_numbers_have_one_type_and_no_hidden_digits():
    """Every answer lies on its lattice: an integer over the query's denominator, nothing below it."""
    made = plan(
        Schema(columns={"y": {"kind": "boolean"}, "z": {"kind": "boolean"}}), epsilon=1, delta=1e-6, mechanism="moments"
    )
    release = curate({"y": [0, 1, 1], "z": [1, 1, 0]}, made)
    assert all(m.values.dtype == np.float64 and (m.values == np.rint(m.values)).all() for m in release.measurements)
    assert all(math.isfinite(m.sigma) for m in release.measurements)
