"""Runs cells on several cores: nothing twice, the same numbers for the same seeds, and no more memory than it may take."""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import threading
import time
from collections import defaultdict
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from functools import lru_cache
from multiprocessing import active_children, get_context
from pathlib import Path

from ddssp.experiments import datasets
from ddssp.experiments.methods import METHODS, Method, Trial
from ddssp.experiments.problem import Problem
from ddssp.experiments.protocol import LINEAR, LOGISTIC, PROTOCOLS, Protocol
from ddssp.experiments.records import Cell, Record, Records
from ddssp.mechanism import Progress

THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
"""One thread per job: faster than all jobs on all cores, and sums are taken in the same order whatever the machine."""


class MemoryExceeded(ValueError):
    """Cells that did not fit into their job's share of the memory."""


def cells(
    protocol: Protocol,
    directory: str | Path,
    *,
    names: Iterable[str],
    methods: Sequence[Method],
    epsilons: Sequence[float],
    trials: int,
    model_size: float,
) -> list[Cell]:
    """Every run that a table of methods × datasets × ε × seeds needs; without privacy one run is enough."""
    out = []
    for name in names:
        targets = datasets.targets(name, directory)
        for kind in (k for k in (LINEAR, LOGISTIC) if k in targets):
            for m in (m for m in methods if kind in m.kinds):
                size = model_size if m.graphical else None
                budgets = [(e, s) for e in epsilons for s in range(trials)] if m.private else [(None, 0)]
                out += [
                    Cell(protocol=protocol.name, kind=kind, dataset=name, method=m.name, epsilon=e, seed=s, model_size=size)
                    for e, s in budgets
                ]
    return list(dict.fromkeys(out))


def run(todo: Iterable[Cell], directory: str | Path, records: Records, *, jobs: int, memory_mb: float, tell: Progress) -> int:
    """Runs what is not finished yet and returns how many runs that was; each is on disk when the next of its job begins."""
    finished = {Cell.of(r) for r in records.read()}
    groups = grouped(c for c in todo if c not in finished)
    total, done, failed = sum(map(cost, groups)) or 1.0, 0.0, 0
    for name in THREADS:
        os.environ[name] = "1"
    share, others = memory_mb / jobs, {*active_children()}
    pool = ProcessPoolExecutor(jobs, mp_context=get_context("spawn"), initializer=_begin, initargs=(os.getpid(), share))
    try:
        futures = {pool.submit(run_group, g, str(directory)): g for g in groups}
        for future in as_completed(futures):
            found = future.result()
            records.append(found)
            failed += sum("error" in r for r in found)
            done += cost(futures[future])
            tell(f"{found[-1]['dataset']}, {found[-1]['method']}", done / total)
    except BrokenProcessPool:
        raise MemoryExceeded("a job was killed, most likely for memory; start again with fewer --jobs.") from None
    except BaseException:
        for job in {*active_children()} - others:
            job.terminate()
        raise
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
    if failed:
        raise MemoryExceeded(f"{failed} runs need more than {share:.0f} MB each; start again with fewer --jobs.")
    return sum(map(len, groups))


def grouped(todo: Iterable[Cell]) -> list[list[Cell]]:
    """Cells that share a release go together."""
    out: dict[tuple[object, ...], list[Cell]] = defaultdict(list)
    for c in todo:
        family = METHODS[c.method].family or c.method
        out[c.protocol, c.kind, c.dataset, family, c.epsilon, c.seed, c.model_size].append(c)
    return list(out.values())


def cost(group: list[Cell]) -> float:
    return sum(METHODS[c.method].cost for c in group)


def run_group(group: list[Cell], directory: str) -> list[Record]:
    return [run_cell(c, directory) for c in group]


def run_cell(cell: Cell, directory: str) -> Record:
    """One run's record: scores, seconds and peak memory; with `error` where it did not fit into memory."""
    _reset_peak()
    try:
        problem = _problem(cell.protocol, cell.kind, cell.dataset, directory)
        trial = Trial(epsilon=cell.epsilon or 0.0, seed=cell.seed, model_size=cell.model_size or 1.0)
        found, seconds = METHODS[cell.method].fit(problem, trial)
        scores = problem.scores(found)
    except MemoryError:
        return cell.record(error="memory")
    return cell.record(substitute=problem.data.is_substitute, **scores, seconds=round(seconds, 3), peak_mb=_peak_mb())


@lru_cache(maxsize=1)
def _problem(protocol: str, kind: str, name: str, directory: str) -> Problem:
    return Problem.of(datasets.dataset(name, directory), kind, PROTOCOLS[protocol])


def _begin(parent: int, memory_mb: float) -> None:
    """A job's guards: it may take its share of the memory, and ends with the process that started it, however that ends.

    Ctrl-C reaches every process of a terminal; that one sees to it.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    limit = int(memory_mb * 2**20)
    resource.setrlimit(resource.RLIMIT_DATA, (limit, resource.getrlimit(resource.RLIMIT_DATA)[1]))

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(0.5)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _reset_peak() -> None:
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def _peak_mb() -> float:
    """Most memory since the last reset, where the system tells it; else since the start."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024
    except (OSError, StopIteration):
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def memory_mb() -> float:
    """Most of what the machine has free now."""
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        free = next(int(line.split()[1]) for line in lines if line.startswith("MemAvailable")) / 1024
    except (OSError, StopIteration):
        free = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**20
    return 0.8 * free
