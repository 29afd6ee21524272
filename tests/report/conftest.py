"""Releases to report on, a browser to open the reports in, and Node to run the page's fit without one."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest
from report_tables import ASSET, MIXED, mixed_rows, wide_release

from ddssp.curate import curate, plan
from ddssp.experiments.noise import SeededNoise
from ddssp.report.contract import contract
from ddssp.schema import Schema


@pytest.fixture(scope="session")
def mixed():
    return curate(mixed_rows(), plan(MIXED, epsilon=4, delta=1e-6, mechanism="moments"), noise=SeededNoise(3))


@pytest.fixture(scope="session")
def demo():
    """The demo's survey, with noise that every run repeats."""
    randhie = pytest.importorskip("statsmodels.datasets.randhie")
    from ddssp.cli.demo import DELTA, EPSILON, SCHEMA, TARGET

    made = plan(Schema(**SCHEMA), epsilon=EPSILON, delta=DELTA, mechanism="moments", target=TARGET)
    return curate(randhie.load_pandas().data, made, noise=SeededNoise(1))


@pytest.fixture(scope="session")
def wide():
    return wide_release(1)


@pytest.fixture(scope="session")
def fire(data_dir):
    """The paper's Fire dataset, its target declared."""
    from ddssp.experiments.datasets import dataset

    found = dataset("fire", data_dir)
    made = plan(found.schema, epsilon=8, delta=1e-5, mechanism="moments", target=found.targets["linear"])
    return curate(found.train, made, noise=SeededNoise(2))


SCRIPT = """
const { readFileSync } = require("node:fs");
require("node:vm").runInThisContext(readFileSync(process.argv[1], "utf8"));
const { contract, asks, compiled } = JSON.parse(readFileSync(0, "utf8")), moments = ddssp.momentsOf(contract);
ddssp.useKernel(compiled);
const columns = new Map(contract.columns.map((c) => [c.name, c]));
const out = asks.map((ask) => {
  const fit = ddssp.fit(moments, { level: 0, intercept: true, references: {}, noiseFactor: 1, ...ask });
  const people = (ask.people ?? []).map((person) => ddssp.predicted(fit, columns, person));
  const ends = fit.coefficients.map((c) => ddssp.limits(c, ask.confidence ?? 0.95));
  const tests = fit.coefficients.map((c) => ddssp.significance(c));
  return { coefficients: fit.coefficients, facts: fit.facts, ends, people, tests };
});
console.log(JSON.stringify(out));
"""


@pytest.fixture(scope="session")
def in_node():
    """The page's own fits of a release, computed by the committed script in Node."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("needs Node, to run the page's script without a browser")

    def run(release, asks, *, compiled: bool = True):
        given = json.dumps({"contract": contract(release), "asks": asks, "compiled": compiled})
        done = subprocess.run([node, "-e", SCRIPT, str(ASSET)], input=given, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return run


@pytest.fixture(scope="session")
def browser():
    """Chromium: playwright's own, or the system's."""
    sync_api = pytest.importorskip("playwright.sync_api", reason="needs playwright: pip install playwright")
    with sync_api.sync_playwright() as playwright:
        own = Path(playwright.chromium.executable_path)
        path = (
            str(own)
            if own.exists()
            else next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
        )
        if path is None:
            pytest.skip("needs Chromium: `playwright install chromium`, or the system's package chromium")
        opened = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield opened
        opened.close()
