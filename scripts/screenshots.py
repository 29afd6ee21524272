"""Takes the pictures of README and docs: report, explorer and command line, of the demo. `make screenshots` runs it.

python scripts/screenshots.py docs/images
"""

from __future__ import annotations

import html
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from playwright.sync_api import sync_playwright

COMMAND = str(Path(sys.executable).with_name("ddssp"))

TERMINAL = """<!doctype html><meta charset="utf-8"><style>
body {{ margin: 0; background: #1d2025; color: #e8e6e1; padding: 22px 28px; width: 100ch; }}
body {{ font: 15px/1.45 "DejaVu Sans Mono", ui-monospace, monospace; }}
b {{ color: #8ecbff; font-weight: 600; }} pre {{ margin: 0 0 1.2em; font: inherit; white-space: pre-wrap; }}
</style>{body}"""


def ran(folder: Path, *words: str) -> str:
    """A command and what it printed, as it looks in a terminal."""
    done = subprocess.run([COMMAND, *words], cwd=folder, capture_output=True, text=True, check=True)
    text = (done.stderr + done.stdout).strip("\n")
    return f"<pre><b>$ ddssp {html.escape(' '.join(words))}</b>\n{html.escape(text)}</pre>"


def session(folder: Path) -> str:
    """The demo, then a fit with intervals and the report."""
    parts = [
        ran(folder, "demo"),
        ran(folder, "fit", "ddssp-demo/survey.ddssp", "--target", "disea", "--features", "physlm,hlthg,hlthf,hlthp"),
        ran(folder, "report", "ddssp-demo/survey.ddssp", "-o", "survey.html"),
    ]
    return TERMINAL.format(body="".join(parts))


def opened(browser: Any, address: str, width: int, height: int, *, dark: bool = False) -> Any:
    context = browser.new_context(
        viewport={"width": width, "height": height}, device_scale_factor=2, color_scheme="dark" if dark else "light"
    )
    page = context.new_page()
    page.goto(address)
    return page


def settle(page: Any) -> None:
    """Waits until the explorer has fitted and drawn."""
    page.wait_for_selector("#explorer [aria-busy=false]")
    page.wait_for_selector("#explorer figure svg")


def warm(page: Any) -> None:
    """Takes features out and in again, so that the time in the status line is one of a page in use, not of its first fit."""
    for i in range(9):
        for _ in range(2):
            page.locator(f"#feature-{i}").click()
            settle(page)


def taken_down_to(page: Any, last: str, path: Path) -> None:
    """The page from its top to the end of the element `last`."""
    box = page.locator(last).bounding_box()
    page.screenshot(
        path=path,
        full_page=True,
        clip={"x": 0, "y": 0, "width": page.viewport_size["width"], "height": box["y"] + box["height"] + 24},
    )


def report_pictures(browser: Any, report: Path, out: Path) -> None:
    page = opened(browser, report.as_uri(), 1200, 860)
    settle(page)
    taken_down_to(page, "#guarantee", out / "report.png")
    warm(page)
    page.set_viewport_size({"width": 1200, "height": 1180})
    page.evaluate("document.querySelector('#explorer h2').scrollIntoView({behavior: 'instant'})")
    page.wait_for_timeout(400)
    page.screenshot(path=out / "explorer.png")
    page.locator("#pairs .chart svg").screenshot(path=out / "pairs.png")
    dark = opened(browser, f"{report.as_uri()}#model=linear&target=disea", 380, 760, dark=True)
    settle(dark)
    dark.evaluate("document.querySelector('#explorer .results').scrollIntoView({behavior: 'instant'})")
    dark.wait_for_timeout(400)
    dark.screenshot(path=out / "phone.png")


def main(out: Path) -> None:
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as name, sync_playwright() as playwright:
        folder = Path(name)
        (folder / "terminal.html").write_text(session(folder), encoding="utf-8")
        path = playwright.chromium.executable_path
        browser = playwright.chromium.launch(
            executable_path=path if Path(path).exists() else shutil.which("chromium"), args=["--no-sandbox"]
        )
        terminal = opened(browser, (folder / "terminal.html").as_uri(), 1200, 700)
        terminal.locator("body").screenshot(path=out / "command-line.png")
        report_pictures(browser, folder / "survey.html", out)
        preview = [COMMAND, "release", "survey.csv", "-s", "ddssp-demo/schema.toml", "-e", "1", "-d", "1e-6", "--dry-run"]
        columns = re.findall(r"^\[columns\.(\w+)\]", (folder / "ddssp-demo/schema.toml").read_text(), re.MULTILINE)
        (folder / "survey.csv").write_text(",".join(columns) + "\n", encoding="utf-8")
        subprocess.run(
            [*preview, "--report", "preview.html", "--records", "20000"], cwd=folder, check=True, capture_output=True
        )
        page = opened(browser, (folder / "preview.html").as_uri(), 1000, 820)
        page.wait_for_selector("#accuracy svg")
        taken_down_to(page, "#accuracy", out / "preview.png")
        browser.close()


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "docs/images"))
