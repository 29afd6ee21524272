"""A page as a list of parts, written as Markdown or as HTML."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape


@dataclass(frozen=True)
class Heading:
    text: str
    level: int = 2

    @property
    def markdown(self) -> str:
        return f"{'#' * self.level} {self.text}"

    @property
    def html(self) -> str:
        return f"<h{self.level}>{escape(self.text)}</h{self.level}>"


@dataclass(frozen=True)
class Paragraph:
    text: str

    @property
    def markdown(self) -> str:
        return self.text

    @property
    def html(self) -> str:
        return "<p>" + re.sub("`([^`]+)`", r"<code>\1</code>", escape(self.text)) + "</p>"


@dataclass(frozen=True)
class Table:
    """Words to the left in the first columns, numbers to the right in the others."""

    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    words: int = 1

    @property
    def markdown(self) -> str:
        lines = [self.head, ["---" if i < self.words else "---:" for i in range(len(self.head))], *self.rows]
        return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)

    @property
    def html(self) -> str:
        head = self._line("th", self.head)
        body = "\n".join(self._line("td", row) for row in self.rows)
        return f'<div class="wide"><table><thead>{head}</thead>\n<tbody>{body}</tbody></table></div>'

    def _line(self, tag: str, cells: Sequence[str]) -> str:
        kinds = (' class="word"' if i < self.words else "" for i in range(len(cells)))
        return "<tr>" + "".join(f"<{tag}{k}>{escape(c)}</{tag}>" for k, c in zip(kinds, cells, strict=True)) + "</tr>"


@dataclass(frozen=True)
class Image:
    source: str
    text: str

    @property
    def markdown(self) -> str:
        return f"![{self.text}]({self.source})"

    @property
    def html(self) -> str:
        return f'<figure><img src="{escape(self.source)}" alt="{escape(self.text)}"></figure>'


Part = Heading | Paragraph | Table | Image

STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 72rem; margin: 2rem auto; padding: 0 1rem }
body { color: #1a1a1a; background: #fff }
table { border-collapse: collapse; font-size: 13px; font-variant-numeric: tabular-nums }
th, td { padding: .2rem .6rem; border-bottom: 1px solid #ddd; text-align: right; vertical-align: top }
.word { text-align: left }
.wide { overflow-x: auto } img { max-width: 100% } figure { margin: 1rem 0 }
"""


def markdown(parts: Sequence[Part]) -> str:
    return "\n\n".join(p.markdown for p in parts) + "\n"


def html(title: str, parts: Sequence[Part]) -> str:
    body = "\n".join(p.html for p in parts)
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        f'<meta name="viewport" content="width=device-width"><style>{STYLE}</style></head>\n<body>\n{body}\n</body></html>\n'
    )
