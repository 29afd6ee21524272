"""What benchmarks/counting.py found, kept in counting.json, as the tables of counting.md."""

from __future__ import annotations

import json
import os
import platform
import subprocess
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

Found = dict[str, Any]

ROOT = Path(__file__).resolve().parent.parent

HEAD = """# Counting: measured

Written by `python benchmarks/counting.py`, each part by its own command, given below with the commit and the machine.
× is the ratio to ours within that run, by wall time / by processor time of all threads and helper processes; a promise is
judged by the smaller. Seconds are the best of equally many runs for every contender, taken in turn; peak memory is that of
all processes together. A load above the number of cores before the run means that others were using the machine:
then processor time is the fairer measure.
"""


def circumstances(what: str, options: list[str]) -> Found:
    """Where and of what a measurement is made."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    packages = " ".join(f"{p} {version(p)}" for p in ("numpy", "numba", "pyarrow", "duckdb", "polars", "pandas", "pyspark"))
    return {
        "command": " ".join(["python benchmarks/counting.py", what, *_measuring(options)]),
        "commit": _commit(),
        "machine": f"{len(os.sched_getaffinity(0))} cores of {_processor()}, {memory:.0f} GB",
        "load": os.getloadavg()[0],
        "versions": f"Python {platform.python_version()}, {packages}",
    }


def kept(what: str, found: Found, report: Path) -> str:
    """The part of the report about `found`, which replaces what was kept of the same measurement before."""
    store = report.with_suffix(".json")
    all_found = json.loads(store.read_text()) if store.exists() else {}
    all_found[what] = found
    store.write_text(json.dumps(all_found, indent=1) + "\n")
    parts = {name: part(name, all_found[name]) for name in PARTS if name in all_found}
    report.write_text("\n".join([HEAD, *promises(all_found), *parts.values()]), encoding="utf-8")
    return parts[what]


def promised(report: Path) -> str:
    """The table of promises, from all that is kept."""
    return "\n".join(promises(json.loads(report.with_suffix(".json").read_text())))


def part(what: str, found: Found) -> str:
    title, lines = PARTS[what]
    made = (
        f"`{found['command']}` at {found['commit']}; {found['machine']}, load before {found['load']:.1f}; {found['versions']}."
    )
    return "\n".join([f"## {title}", *lines(found), "", made, ""])


def promises(found: Found) -> Iterator[str]:
    """What is asked of the counting pass, beside what was measured."""
    yield "| asked | measured | |"
    yield "|---|---|---|"
    for what, asked, value, spoken, is_kept in PROMISES:
        if what in found:
            measured = value(found[what])
            yield f"| {asked} | {spoken.format(measured)} | {'kept' if is_kept(measured) else '**missed**'} |"
    yield ""


def ratio(of: str, to: str) -> Callable[[Found], float]:
    """The smaller of the ratios of wall and processor time."""
    return lambda found: min(_ratios(found["seconds"][of], found["seconds"][to]))


def furthest(exponents: dict[str, float]) -> float:
    """The exponent of wall or processor time that is further from 1."""
    return max(exponents.values(), key=lambda e: abs(e - 1))


def at_least(limit: float) -> Callable[[float], bool]:
    return lambda value: value >= limit


def below(limit: float) -> Callable[[float], bool]:
    return lambda value: value < limit


NUMBA, DUCKDB = "ours, numba", "DuckDB, UNION ALL on its own table"
PANDAS = "pandas crosstab (15 of the pairs, scaled)"
GROUPING, MEMORY = "Spark, grouping sets", "ours, numba, the same in memory"

PROMISES: list[tuple[str, str, Callable[[Found], float], str, Callable[[float], bool]]] = [
    ("table", "a table, numba: ≥ 5 × DuckDB", ratio(DUCKDB, NUMBA), "{:.1f} ×", at_least(5)),
    ("table", "a table, numba: ≥ 20 × pandas", ratio(PANDAS, NUMBA), "{:.0f} ×", at_least(20)),
    ("table", "a table, no numba: ≥ 1.5 × DuckDB", ratio(DUCKDB, "ours, numpy"), "{:.2f} ×", at_least(1.5)),
    ("stream", "from Parquet, numba: ≥ 3 × DuckDB", ratio("DuckDB, UNION ALL", NUMBA), "{:.1f} ×", at_least(3)),
    ("spark", "`mapInArrow`: ≥ 5 × grouping sets", ratio(GROUPING, "ours, mapInArrow"), "{:.0f} ×", at_least(5)),
    ("scale", "any n: peak memory < 1 GB", lambda f: max(s["MB"] for s in f["steps"].values()), "{:.0f} MB", below(1000)),
    ("scale", "exponent of time in n: 0.95 … 1.05", lambda f: furthest(f["exponent"]), "{:.3f}", lambda e: 0.95 <= e <= 1.05),
    ("wide", "500 numeric columns: a release < 60 s", lambda f: f["whole"]["wall"], "{:.1f} s", below(60)),
    ("wide", "500 numeric columns: < 4 GB", lambda f: f["whole"]["MB"], "{:.0f} MB", below(4000)),
    ("levels", "100 × 50 levels: counted < 1 min", lambda f: f["counts"]["wall"], "{:.1f} s", below(60)),
    ("levels", "100 × 50 levels: released < 6 min", lambda f: f["whole"]["wall"], "{:.0f} s", below(360)),
    (
        "levels",
        "100 × 50 levels: memory estimated within 30 %",
        lambda f: 100 * (f["whole"]["estimated MB"] / f["whole"]["MB"] - 1),
        "{:+.0f} %",
        lambda off: abs(off) <= 30,
    ),
]
"""Measurement, promise, its figure, how it is written, whether it is kept."""


def compared(found: Found) -> Iterator[str]:
    """Seconds of all contenders, and their ratios to the first."""
    yield "| | wall | processor | × |"
    yield "|---|---|---|---|"
    ours, *others = found["seconds"].items()
    yield f"| {ours[0]} | {_seconds(ours[1])} | |"
    for name, seconds in others:
        yield f"| {name} | {_seconds(seconds)} | {_spoken(_ratios(seconds, ours[1]))} |"
    yield ""
    yield f"Best of {found['times']}." if "times" in found else "Best of several."


def of_table(found: Found) -> Iterator[str]:
    yield from compared(found)
    wall, cpu = (100 * best / own for best, own in zip(found["limit"], found["seconds"][NUMBA], strict=True))
    yield ""
    yield (
        "The limit (one increment for each row and pair of groups of columns, on codes in the cache, and one reading of the "
        f"codes, by all cores) is {found['limit'][0]:.3f} s, of which we reach {wall:.0f} % by wall time and {cpu:.0f} % by "
        "processor time; the rest is turning Arrow's integers into codes."
    )


def of_stream(found: Found) -> Iterator[str]:
    yield from compared(found)
    yield ""
    yield f"{found['rows']}M rows. Peak memory: " + ", ".join(f"{name} {mb:.0f} MB" for name, mb in found["MB"].items()) + "."


def of_spark(found: Found) -> Iterator[str]:
    yield from compared(found)
    yield ""
    settings = ", ".join(f"`{name.removeprefix('spark.')}` {value}" for name, value in found["settings"].items())
    yield f"{found['rows']}M rows in 4 partitions, cached; the first pass starts Python's workers. Settings: {settings}."
    if MEMORY in found["seconds"]:
        ratios = _spoken(_ratios(found["seconds"][GROUPING], found["seconds"][MEMORY]))
        yield f"Counted in memory, without Spark, the same rows take {ratios} times less than Spark's grouping sets."
    if "larger" in found:
        rows, wall = found["larger"]["rows"], found["larger"]["wall"]
        yield f"{rows}M rows straight from Parquet: {wall:.1f} s, or {rows / wall / 2:.2f} million rows a second and core."


def of_scale(found: Found) -> Iterator[str]:
    steps = found["steps"]
    yield "| millions of rows | " + " | ".join(steps) + " |"
    yield "|---" * (len(steps) + 1) + "|"
    for name, key, digits in (("wall, s", "wall", 2), ("processor, s", "cpu", 2), ("peak memory, MB", "MB", 0)):
        yield f"| {name} | " + " | ".join(f"{s[key]:.{digits}f}" for s in steps.values()) + " |"
    power, disk = found["exponent"], found["disk MB"] / 1000
    yield ""
    yield f"Time grows as n to the power of {power['wall']:.3f} (wall), {power['cpu']:.3f} (processor); {disk:.1f} GB on disk."


def of_releases(found: Found) -> Iterator[str]:
    yield "| | wall | processor | peak memory | estimated before | draws of noise |"
    yield "|---|---|---|---|---|---|"
    for name, title in (("counts", "counts alone"), ("whole", "the whole release")):
        if name in found:
            f = found[name]
            before = f" {f['estimated MB']:.0f} MB | {f['draws']:,} |" if name == "whole" else " | |"
            yield f"| {title} | {f['wall']:.1f} s | {f['cpu']:.1f} s | {f['MB']:.0f} MB |{before}"


PARTS: dict[str, tuple[str, Callable[[Found], Iterator[str]]]] = {
    "table": ("All 105 pairs of 15 integer columns (domains 2–100), 1M rows in memory", of_table),
    "stream": ("The same from Parquet, batch by batch", of_stream),
    "spark": ("The same on Spark, local[2]", of_spark),
    "scale": ("Growth with n, from Parquet", of_scale),
    "wide": ("500 numeric columns, 1M rows, moments, ε = 1", of_releases),
    "levels": ("100 columns of 50 levels, 1M rows, moments, ε = 1, exact noise", of_releases),
}


def _ratios(seconds: list[float | None], base: list[float | None]) -> list[float]:
    return [s / b for s, b in zip(seconds, base, strict=True) if s is not None and b is not None]


def _spoken(ratios: list[float]) -> str:
    return " / ".join(f"{r:.2f}" if r < 10 else f"{r:.0f}" for r in ratios)


def _seconds(seconds: list[float | None]) -> str:
    return " | ".join("" if s is None else f"{s:.3f} s" if s < 10 else f"{s:.1f} s" for s in seconds)


def _measuring(options: list[str]) -> list[str]:
    """The options that decide what is measured: all but where the report goes."""
    return [o for before, o in zip(["", *options], options, strict=False) if {o, before}.isdisjoint({"-o", "--output"})]


def _commit() -> str:
    def git(*words: str) -> str:
        return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=False).stdout.strip()

    changed = git("status", "--porcelain", "src", "benchmarks/counting.py", "benchmarks/measuring.py")
    return (git("rev-parse", "--short", "HEAD") or "no commit") + (", files changed since" if changed else "")


def _processor() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    names = [line.partition(":")[2].strip() for line in cpuinfo.read_text().splitlines() if line.startswith("model name")]
    return names[0] if names else platform.machine()
