"""The leaderboard: every mechanism and baseline on every dataset, at δ = 1e-5 with ρ accounting and reproducible noise.

    python benchmarks/accuracy.py --data ../shared/data [--trials 20] [--jobs 2] [--datasets adult,fire] [--methods auto,adassp]
    python benchmarks/accuracy.py --table

Linear: the paper's split, intercept on, test MSE on the 1,000 test rows and excess = (θ − θ_ols)'(X'X/n)(θ − θ_ols) on the
training rows. Logistic: AUC and log-loss on rows beyond the training ones, or on a fifth held out where there are none. Every
finished run is one line of results/accuracy.jsonl, so a run that was stopped goes on where it was. To run a method anew after
it changed: --again METHOD drops its lines first.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from ddssp.cli.show import progress
from ddssp.experiments import datasets, leaderboard, runner
from ddssp.experiments.methods import chosen
from ddssp.experiments.protocol import EPSILONS, OURS
from ddssp.experiments.records import Records

RESULTS = Path(__file__).parent / "results"
METHODS = "nonprivate,ssp-tight,adassp,objpert,objpert-tight,dpsgd,moments,auto"
"""The fast ones; AIM takes seconds a run: --methods ddssp --trials 5."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default=os.environ.get("DDSSP_DATA", "../shared/data"))
    parser.add_argument("--trials", type=int, default=OURS.trials)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--datasets", default="")
    parser.add_argument("--methods", default=METHODS)
    parser.add_argument("--epsilons", default=",".join(map(str, EPSILONS)))
    parser.add_argument("--model-size", type=float, default=8.0)
    parser.add_argument("--again", default="", metavar="METHOD", help="forget this method's runs first")
    parser.add_argument("--table", action="store_true", help="only write results/accuracy.md from the finished runs")
    args = parser.parse_args()
    records = Records(RESULTS / "accuracy.jsonl")
    if args.again:
        records.drop(lambda r: r["method"] == args.again)
    if not args.table:
        asked = [d for d in args.datasets.split(",") if d]
        todo = runner.cells(
            OURS,
            args.data,
            names=datasets.resolved(asked, args.data) or datasets.names(args.data),
            methods=chosen(args.methods.split(",")),
            epsilons=tuple(map(float, args.epsilons.split(","))),
            trials=args.trials,
            model_size=args.model_size,
        )
        with progress() as tell:
            made = runner.run(todo, args.data, records, jobs=args.jobs, memory_mb=runner.memory_mb(), tell=tell)
        print(f"{len(todo)} runs, {made} of them made now", file=sys.stderr)
    leaderboard.write(records, RESULTS / "accuracy.md")


if __name__ == "__main__":
    main()
