"""What people read: tables on stdout, progress on stderr, JSON."""

from __future__ import annotations

import json
import os
import sys
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

from ddssp.mechanism import Progress


def emit_json(value: Any) -> None:
    print(json.dumps(value, indent=2, ensure_ascii=False))


def note(text: str) -> None:
    """A line for the person at the terminal; control characters, which names in a file may hold, as escapes."""
    tame = (c if c in "\n\t" or unicodedata.category(c) not in {"Cc", "Cs"} else ascii(c)[1:-1] for c in text)
    print("".join(tame), file=sys.stderr)


def columns() -> int | None:
    """Letters of a line: what COLUMNS says, else the terminal of stdout or, beside a pipe, of stderr; None without one."""
    stated = os.environ.get("COLUMNS", "")
    if stated.isdecimal() and int(stated) > 0:
        return int(stated)
    for stream in (sys.stdout, sys.stderr):
        if stream.isatty():
            return os.get_terminal_size(stream.fileno()).columns or None
    return None


def emit_table(title: str, headings: Sequence[str], rows: Iterable[Sequence[str]], *, text: Sequence[str] = ()) -> None:
    """A table on stdout: the first column is a name, the others numbers; headings in `text` are words, to the left."""
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(header_style="bold", box=SIMPLE_HEAD)
    for i, heading in enumerate(headings):
        table.add_column(heading, justify="left" if i == 0 or heading in text else "right", overflow="fold")
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    console = Console(soft_wrap=False) if sys.stdout.isatty() else Console(width=120, no_color=True)
    console.print(Text(title, style="bold"))
    console.print(table)


def number(value: float) -> str:
    """Four significant digits, aligned by eye."""
    return f"{value:.4g}"


@contextmanager
def progress() -> Iterator[Progress]:
    """A bar on stderr with what is being done, its rate and the time left; silent when stderr is not a terminal."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn
    from rich.text import Text

    class Pace(ProgressColumn):
        def render(self, task: Task) -> Text:
            return Text(pace(task.completed, task.speed, task.elapsed or 0.0))

    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.percentage:>3.0f}%"), Pace())
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("starting", total=1.0)

        def tell(what: str, share: float) -> None:
            if share < bar.tasks[0].completed:
                bar.reset(task)  # the next pass or stage goes at a rate of its own
            bar.update(task, description=what, completed=share)

        yield tell


def pace(share: float, speed: float | None, seconds: float) -> str:
    """Percent a second and the time left; the time so far where there is no rate yet.

    Guarantees: no number of rows, whatever is counted.

    >>> pace(0.25, 0.015, 20)
    '1.5 %/s, 0:00:50 left'
    >>> pace(0.0, None, 3)
    '0:00:03 so far'
    """
    if not share or not speed:
        return f"{timedelta(seconds=int(seconds))} so far"
    return f"{100 * speed:.3g} %/s, {timedelta(seconds=round((1 - share) / speed))} left"
