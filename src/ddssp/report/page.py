"""One file that holds a report: style, script and data, no network, opens from disk.

Guarantees: labels and names of the release reach the page as JSON text inside a script element of a type that browsers do not
run, with every `<` escaped, and the page builds elements from text only; its own policy allows the one script that this module
wrote (which compiles its heaviest loops) and no connection at all.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
from importlib.resources import files
from pathlib import Path
from typing import Any

import ddssp
from ddssp import whole
from ddssp.archive import ReleaseError
from ddssp.released import Release, require_writable
from ddssp.report.contract import contract

PAGES = (".html", ".htm")

TEMPLATE = """\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; script-src 'sha256-{script_hash}' 'wasm-unsafe-eval'; \
style-src 'unsafe-inline'; img-src data: blob:; base-uri 'none'; form-action 'none'">
<meta name="generator" content="ddssp {version}">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
<noscript>
<h1>{title}</h1>
<p>{sentence}</p>
<p>Tables, charts and regressions need JavaScript; nothing is loaded from anywhere.</p>
</noscript>
<div id="page"></div>
<script type="application/json" id="release">{data}</script>
<script>{script}</script>
</body>
</html>
"""


def page(release: Release, *, file: str = "release.ddssp") -> str:
    """The report of a release as one HTML page.

    Args:
        file: what the release is called in the code that the page offers for copying.
    """
    return _filled(contract(release, file=file), title=f"{release.schema.name}: a private release", sentence=_sentence(release))


def expectation_page(data: dict[str, Any]) -> str:
    """The owner's preview as one HTML page, from what `expectation.expectation` says."""
    about = f"What to expect of a release of {data['name']}"
    return _filled(data, title=about, sentence=f"{about}, from its schema and a stated number of records alone.")


def write(release: Release, path: str | Path, *, file: str = "release.ddssp", force: bool = False) -> int:
    """Writes the report; refuses to overwrite unless `force`, and anything but a page even then. Returns its size in bytes."""
    path = Path(path)
    require_writable(path, force=force, kinds=PAGES)
    content = page(release, file=file).encode()
    put(path, content)
    return len(content)


def put(path: Path, content: bytes) -> None:
    """Writes a page, whole or not at all; what the system says against it becomes one sentence."""
    try:
        whole.write(path, content)
    except OSError as error:
        raise ReleaseError(f"output {str(path)!r} cannot be written: {error.strerror or type(error).__name__}.") from None


def _filled(data: dict[str, Any], *, title: str, sentence: str) -> str:
    script, style = _asset("explorer.js"), _asset("explorer.css")
    return TEMPLATE.format(
        title=html.escape(title),
        sentence=html.escape(sentence),
        version=html.escape(ddssp.__version__),
        script_hash=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
        style=style,
        script=script,
        data=inert(data),
    )


def inert(data: Any) -> str:
    """JSON that no HTML parser takes for markup."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def _asset(name: str) -> str:
    """A built file of explorer/; it must not end the element that it is written into."""
    text = files("ddssp.report").joinpath(name).read_text(encoding="utf-8")
    if "</script" in text.lower() or "</style" in text.lower():
        raise ValueError(f"{name} would end its own element; rebuild it with `make explorer`.")
    return text


def _sentence(release: Release) -> str:
    return (
        f"{release.mechanism} release of {len(release.schema.resolved)} columns at ε = {release.budget.epsilon:g}, "
        f"δ = {release.budget.delta:g}; protects each {release.schema.unit}."
    )
