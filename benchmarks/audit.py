"""The long audit: lower bounds on the privacy that primitives and whole releases lose, and twins that must be caught.

python benchmarks/audit.py                     all of it, on all cores, and the report
python benchmarks/audit.py --sample aim weak 1    one part, kept in build/audit; the report is made once all parts are there
"""

from __future__ import annotations

import argparse
import time
from concurrent.futures import ProcessPoolExecutor
from itertools import product
from pathlib import Path

import numpy as np

from ddssp.audit.bound import Finding, finding
from ddssp.audit.worlds import AUDITS, WEAK, Weakened, claim
from ddssp.curate import product_noise
from runs import RESULTS, ROOT, Run, append, circumstances, made, runs

EPSILON, DELTA = 1.0, 1e-5
ALARM = 1e-3
"""Each audit raises a false alarm in at most this share of its repetitions."""

RUNS = {"gaussian": 100_000, "selection": 100_000, "moments": 20_000, "aim": 40_000}
"""A world. The AIM audit's statistic leaves out what its selections, a tenth of the budget, say: it needs more runs."""

PILOT = {name: runs // 10 for name, runs in RUNS.items()}
NOISES = {"product": product_noise, "weak": Weakened}
PARTS = [*product(RUNS, NOISES, (0, 1))]


def sampled(name: str, noise: str, world: int, folder: Path, share: float = 1.0) -> None:
    """None; the folder has the statistics of all runs of one world, pilot runs first, and how they were made."""
    path = folder / f"{name}-{noise}-{world}.npy"
    if path.exists():
        return
    how, start = circumstances(), time.perf_counter()
    count = int((PILOT[name] + RUNS[name]) * share)
    np.save(path, AUDITS[name](NOISES[noise](), EPSILON, DELTA)(world, count))
    how |= {"part": path.stem, "runs": count, "seconds": round(time.perf_counter() - start, 1)}
    append(folder / "parts.jsonl", how)
    print(f"{path.name}: {count} runs, {how['seconds']:.0f} s", flush=True)


def findings(folder: Path) -> dict[tuple[str, str], Finding]:
    out = {}
    for name, noise in product(RUNS, NOISES):
        zeros, ones = (np.load(folder / f"{name}-{noise}-{world}.npy") for world in (0, 1))
        pilot = len(zeros) // 11
        out[name, noise] = finding(name, zeros, ones, claim(name, EPSILON, DELTA), pilot=pilot, alarm=ALARM)
    return out


def report(found: dict[tuple[str, str], Finding], parts: list[Run]) -> str:
    lines = [
        "# Audit",
        "",
        f"ε = {EPSILON:g}, δ = {DELTA:g}; neighbours differ by one record, the worst known. Bounds are lower bounds on μ",
        f"(Gaussian differential privacy) by Clopper–Pearson; each is above the truth in at most {ALARM:g} of audits. The",
        "threshold was fixed on separate runs, a tenth as many. `gaussian` and `selection` are primitives; `moments` and `aim`",
        "are whole releases through `curate` of tables of two columns (AIM with the tree step), judged by the likelihood ratio",
        f"of what the file holds. The twin draws {WEAK:g} of the noise and must be caught: its bound must exceed the claim.",
        "Made by `make audit`.",
        "",
        "| audit | runs a world | claim μ | bound | bound / claim | twin's bound / claim | twin caught |",
        "|---|---|---|---|---|---|---|",
    ]
    for name in RUNS:
        own, weak = found[name, "product"], found[name, "weak"]
        verdict = "yes" if weak.caught else "NO"
        flag = " VIOLATED" if own.caught else ""
        figures = f"{own.claim:.4f} | {own.bound:.4f}{flag} | {own.share:.3f} | {weak.share:.3f}"
        lines.append(f"| {name} | {own.runs:,} | {figures} | {verdict} |")
    return "\n".join([*lines, *made(parts)]) + "\n"


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--sample", nargs=3, metavar=("AUDIT", "NOISE", "WORLD"))
    arguments.add_argument("--folder", type=Path, default=ROOT / "build" / "audit")
    arguments.add_argument("-o", "--output", type=Path, default=RESULTS / "audit.md")
    arguments.add_argument("--share", type=float, default=1.0, help="share of the runs, to try it out")
    given = arguments.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    if given.sample:
        sampled(given.sample[0], given.sample[1], int(given.sample[2]), given.folder, given.share)
        return
    with ProcessPoolExecutor() as pool:
        for done in [pool.submit(sampled, *part, given.folder, given.share) for part in PARTS]:
            done.result()
    text = report(findings(given.folder), runs(given.folder / "parts.jsonl"))
    given.output.write_text(text, encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
