"""An extension of griffe: examples in docstrings (>>>) become code blocks, and so do indented formulas."""

from __future__ import annotations

import re
from typing import Any

import griffe

EXAMPLE = re.compile(r"^>>> .*?(?=\n\s*\n|\Z)", re.DOTALL | re.MULTILINE)


class Doctests(griffe.Extension):
    """Fences every example of every docstring."""

    def on_instance(self, *, obj: griffe.Object, **_: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = EXAMPLE.sub(lambda m: f"```pycon\n{m.group(0)}\n```", obj.docstring.value)
