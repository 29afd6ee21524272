"""The report in a real Chromium: opened from disk, without a network, used with the mouse, the keyboard and by address."""

from __future__ import annotations

import csv
import io
import json
import shlex
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import numpy as np
import pytest
from report_tables import ROOT

from ddssp.cli import main
from ddssp.curate import curate, plan
from ddssp.experiments.noise import SeededNoise
from ddssp.report.page import write
from ddssp.schema import Schema

AXE = ROOT / "explorer" / "node_modules" / "axe-core" / "axe.min.js"


class Opened:
    """A report in a tab of its own: offline, every request and every message on the console written down."""

    def __init__(self, browser, path: Path, *, width: int = 1200, dark: bool = False, fragment: str = "") -> None:
        scheme = "dark" if dark else "light"
        self.context = browser.new_context(
            viewport={"width": width, "height": 900}, color_scheme=scheme, offline=True, accept_downloads=True
        )
        self.context.set_default_timeout(15_000)
        self.requests: list[str] = []
        self.messages: list[str] = []
        self.page = self.context.new_page()
        self.page.on("request", lambda r: self.requests.append(r.url))
        self.page.on("console", lambda m: self.messages.append(f"{m.type}: {m.text}"))
        self.page.on("pageerror", lambda e: self.messages.append(f"error: {e}"))
        self.page.on("dialog", lambda d: (self.messages.append(f"dialog: {d.message}"), d.dismiss()))
        self.page.goto(path.as_uri() + fragment)
        self.page.wait_for_selector("#guarantee")

    def settled(self) -> Opened:
        """After the explorer has fitted and drawn."""
        self.page.wait_for_selector("#explorer .results:not([hidden]) table")
        return self

    def table(self) -> dict[str, dict[str, float | None]]:
        """The coefficient table as its CSV has it."""
        with self.page.expect_download() as download:
            self.page.get_by_role("button", name="Table as CSV").click()
        rows = csv.DictReader(io.StringIO(Path(download.value.path()).read_text(encoding="utf-8")))
        return {r.pop("name"): {k: float(v) if v else None for k, v in r.items()} for r in rows}

    def quiet(self) -> None:
        """Nothing on the console, nothing asked of any network."""
        assert self.messages == []
        assert all(url.startswith(("file:", "data:", "blob:")) for url in self.requests)

    def __enter__(self) -> Opened:
        return self

    def __exit__(self, *_: object) -> None:
        self.context.close()


@pytest.fixture(scope="module")
def folder(tmp_path_factory, demo, mixed):
    """Reports beside their releases, as they are mailed around."""
    made = tmp_path_factory.mktemp("reports")
    for name, release in {"demo": demo, "mixed": mixed}.items():
        release.save(made / f"{name}.ddssp")
        write(release, made / f"{name}.html", file=f"{name}.ddssp")
    return made


def assert_equals_python(table, fit) -> int:
    """Every coefficient and interval to 1e-9; returns how many numbers were compared."""
    found, limits = fit.intervals, fit.intervals.limits(0.95)
    assert list(table) == list(fit.coef)
    compared = 0
    for i, (name, row) in enumerate(table.items()):
        expected = {"coef": fit.coef[name]}
        if found.identified[i]:
            expected |= {"estimate": found.estimate[i], "sampling": found.sampling[i], "privacy": found.privacy[i]}
            expected |= {"low": limits[i, 0], "high": limits[i, 1]}
        else:
            assert row["estimate"] is None
        for key, value in expected.items():
            assert abs(row[key] - value) <= 1e-9 * max(abs(value), 1e-3 * max(map(abs, fit.coef.values()))), (name, key)
            compared += 1
    return compared


def test_the_demo_opens_and_equals_python(browser, folder, demo):
    with Opened(browser, folder / "demo.html") as opened:
        opened.settled()
        page = opened.page
        for title in (
            "What is guaranteed",
            "Regressions",
            "Which columns go together",
            "One column at a time",
            "Where the budget went",
        ):
            assert page.get_by_role("heading", name=title, exact=True).is_visible()
        assert "NOT PRIVATE" in page.locator("header").inner_text()  # the fixture's noise can be repeated
        compared = assert_equals_python(opened.table(), demo.linear("mdvis"))
        page.get_by_label("Target").select_option("disea")
        compared += assert_equals_python(opened.table(), demo.linear("disea"))
        for name in ("lpi", "fmde", "hlthg"):
            page.get_by_label(name, exact=True).first.uncheck()
        kept = [c for c in demo.encoding.columns if c not in {"disea", "lpi", "fmde", "hlthg"}]
        compared += assert_equals_python(opened.table(), demo.linear("disea", features=kept))
        page.get_by_label("Intercept").uncheck()
        compared += assert_equals_python(opened.table(), demo.linear("disea", features=kept, intercept=False))
        page.get_by_label("Target").select_option("idp")
        page.get_by_label("Model").select_option("logistic")
        compared += assert_equals_python(opened.table(), demo.logistic("idp"))
        assert compared > 150
        opened.quiet()


def report_of(release, tmp_path: Path) -> Path:
    write(release, tmp_path / "r.html", file="r.ddssp")
    return tmp_path / "r.html"


REFERENCE = """() => window.product = () => {
  const n = 224, A = Float64Array.from({ length: n * n }, (_, i) => i % 7), B = A.slice(), C = new Float64Array(n * n);
  for (let i = 0; i < n; i += 2) for (let j = 0; j < n; j += 4) {
    const a = i * n, b = j * n;
    let c = 0, d = 0, e = 0, f = 0, g = 0, h = 0, k = 0, m = 0;
    for (let l = 0; l < n; l++) {
      const p = A[a + l], q = A[a + n + l], w = B[b + l], x = B[b + n + l], y = B[b + 2 * n + l], z = B[b + 3 * n + l];
      c += p * w; d += p * x; e += p * y; f += p * z; g += q * w; h += q * x; k += q * y; m += q * z;
    }
    C[a + j] = c + d + e + f; C[a + n + j] = g + h + k + m;
  }
  return C[5];
}"""
"""A fixed amount of plain arithmetic: the product of two matrices of 224 rows."""

USUAL_PRODUCT = 14.0
"""Milliseconds of processor time that it takes on cores of the project's kind as they usually are; 7 on their best day."""

REFIT = """() => {
  const moments = ddssp.momentsOf(JSON.parse(document.getElementById("release").textContent));
  const target = document.getElementById("target").value, columns = moments.encoding.blocks.map((b) => b.column);
  const features = columns.filter((c) => c !== null && c !== target);
  const ask = { model: "linear", target, features, level: 0, intercept: true, references: {}, noiseFactor: 1 };
  window.refit = () => ddssp.fit(moments, ask).coefficients.length;
}"""
"""The page's own fit of its target on all other columns, without the page around it."""

CHANGE = """async (click) => {
  const later = window.setTimeout, held = [];
  window.setTimeout = (work) => held.push(work);
  const start = performance.now();
  if (click !== null) document.querySelector(click).click();
  else {
    const target = document.getElementById("target");
    target.selectedIndex = (target.selectedIndex + 1) % target.options.length;
    target.dispatchEvent(new Event("change"));
  }
  await new Promise((painted) => requestAnimationFrame(() => {
    const channel = new MessageChannel();
    channel.port1.onmessage = painted;
    channel.port2.postMessage(null);
  }));
  const wall = performance.now() - start;
  window.setTimeout = later;
  window.goOn = () => held.forEach((work) => later(work));
  return { wall, fit: Number(document.querySelector(".status").dataset.milliseconds) };
}"""
"""From a change to the frame that shows its numbers; what the page does after that frame is held back until `goOn`."""


class Stopwatch:
    """Milliseconds of the page's own processor time."""

    def __init__(self, opened: Opened) -> None:
        self.page, self.session = opened.page, opened.context.new_cdp_session(opened.page)
        self.session.send("Performance.enable", {"timeDomain": "threadTicks"})

    def spent(self) -> float:
        metrics = self.session.send("Performance.getMetrics")["metrics"]
        return 1000 * next(m["value"] for m in metrics if m["name"] == "TaskDuration")

    def of(self, script: str, argument: object = None) -> tuple[float, object]:
        before = self.spent()
        result = self.page.evaluate(script, argument)
        return self.spent() - before, result


def timed_changes(opened: Opened, boxes: int = 10) -> dict[str, list[float]]:
    """Milliseconds of `boxes` features switched off and on again and of five other targets, each until it is painted."""
    clicks = [f"#feature-{i}" for i in range(boxes) for _ in range(2)] + [None] * 5
    clock, found = Stopwatch(opened), {"change": [], "wall": [], "fit": [], "product": []}
    opened.page.evaluate(REFERENCE)
    opened.page.evaluate("for (let i = 0; i < 20; i++) product()")
    for click in clicks:
        opened.page.wait_for_selector("#explorer [aria-busy=false]")
        cpu, result = clock.of(CHANGE, click)
        found["product"].append(clock.of("product()")[0])
        opened.page.evaluate("goOn()")
        found["change"].append(min(cpu, result["wall"]))
        found["wall"].append(result["wall"])
        found["fit"].append(result["fit"])
    return found


def pace_of_the_fit(opened: Opened, times: int = 25) -> float:
    """How many fixed products a refit takes: the median of so many pairs, one right after the other, in processor time."""
    opened.page.evaluate(REFERENCE)
    opened.page.evaluate(REFIT)
    opened.page.evaluate("for (let i = 0; i < 20; i++) product()")
    assert opened.page.evaluate("refit() && refit()") > 200
    clock = Stopwatch(opened)
    pairs = np.array([[clock.of("refit()")[0], clock.of("product()")[0]] for _ in range(times)])
    pace = float(np.median(pairs[:, 0] / pairs[:, 1]))
    print(f"medians of {times} refits and products, ms: {np.median(pairs, axis=0).round(1)}, one in the other: {pace:.2f}")
    return pace


def assert_at_once(opened: Opened) -> None:
    """A refit of more than 200 coefficients takes under 50 ms; a change is painted in under 100.

    Both on a machine where the fixed product takes USUAL_PRODUCT. The speed of one and the same machine changes twofold from
    hour to hour, and others use it, so a refit is held to 50 / USUAL_PRODUCT = 3.6 products of processor time: for Fire 2.8
    to 3.3 were measured, with busy loops on all cores as without. One of three attempts must keep it; a fit 1.5 times as slow
    keeps it in none.
    Changes are held by the median of 25, of wall-clock or processor time, or, where others slow both, by the best quarter.
    """
    opened.page.wait_for_selector("#explorer .chart[aria-label^='Typical']")
    quick = any(pace_of_the_fit(opened) < 50 / USUAL_PRODUCT for _ in range(3))
    assert quick, "a refit takes more than 50 ms at the machine's usual speed; the paces are printed"
    found = timed_changes(opened)
    median, quarter = ({name: float(np.quantile(v, at)) for name, v in found.items()} for at in (0.5, 0.25))
    for title, values in (("medians", median), ("best quarters", quarter)):
        print(f"{title} of {len(found['change'])} changes, ms:", {name: round(value, 1) for name, value in values.items()})
    assert median["change"] < 100 or quarter["change"] < 100 * max(quarter["product"] / USUAL_PRODUCT, 1)


BESIDE = """() => {
  const names = [...document.querySelectorAll("#budget svg text title")];
  const label = names.find((t) => t.textContent.endsWith("districts 1"))?.parentNode;
  if (!label || label.firstChild.data.length <= 24) return false;
  const text = label.getBoundingClientRect(), chart = label.closest(".chart").getBoundingClientRect();
  const redrawn = Math.abs(label.ownerSVGElement.getAttribute("width") - chart.width) < 8;
  return redrawn && chart.width < 520 && text.left >= chart.left - 1;
}"""
"""Whether a long name in the narrow chart of the budget is cut late, and lies within the chart."""


def test_labels_are_cut_where_they_are_alike(browser, tmp_path):
    """Levels of one column begin alike: what is drawn of them differs, and hovering shows all of it."""
    names = [f"a long column of codes for districts {i}" for i in (1, 2)]
    columns = {
        n: {"kind": "categorical", "levels": [f"a level described at great length, part {k}" for k in range(5)]} for n in names
    }
    rng = np.random.default_rng(2)
    rows = {n: rng.choice(c["levels"], 4000) for n, c in columns.items()}
    columns["y"], rows["y"] = {"kind": "numeric", "low": 0, "high": 1}, rng.random(4000)
    made = plan(Schema(columns=columns), epsilon=8, delta=1e-6, mechanism="moments")
    with Opened(browser, report_of(curate(rows, made, noise=SeededNoise(0)), tmp_path), fragment="#target=y") as opened:
        opened.settled()
        texts = opened.page.locator("#explorer figure .chart text:has(title)")
        texts.first.wait_for(state="attached")
        drawn = [
            t.partition("|")[::2] for t in texts.evaluate_all("all => all.map((t) => `${t.firstChild.data}|${t.textContent}`)")
        ]
        shown, full = [d[0] for d in drawn], [d[1][len(d[0]) :] for d in drawn]
        assert len(set(shown)) == len(shown) == 8
        assert all("…" in s for s in shown)
        assert set(full) == {f"{n}={level}" for n in names for level in columns[n]["levels"][1:]}
        opened.page.set_viewport_size({"width": 1000, "height": 900})
        opened.page.wait_for_function(BESIDE)  # two charts beside each other have room for more than a telephone's 20 letters
        opened.quiet()


@pytest.mark.data
def test_fire_opens_equals_python_and_is_refitted_at_once(browser, fire, tmp_path):
    """All of its columns at once, then some; more than 225 numbers in all."""
    with Opened(browser, report_of(fire, tmp_path)) as opened:
        opened.settled()
        assert opened.page.get_by_label("Target").input_value() == "Priority"
        assert assert_equals_python(opened.table(), fire.linear("Priority")) > 225
        opened.page.get_by_role("button", name="None", exact=True).click()
        for name in ("Original Priority", "Unit Type"):
            opened.page.get_by_label(name, exact=True).first.check()
        assert_equals_python(opened.table(), fire.linear("Priority", features=["Original Priority", "Unit Type"]))
        opened.page.get_by_role("button", name="All", exact=True).click()
        assert_at_once(opened)
        opened.quiet()


def test_a_table_as_wide_as_fire_is_refitted_at_once(browser, wide, tmp_path):
    with Opened(browser, report_of(wide, tmp_path)) as opened:
        opened.settled()
        assert assert_equals_python(opened.table(), wide.linear("o0")) > 225
        assert_at_once(opened)
        opened.quiet()


def test_keyboard_alone(browser, folder):
    """Tab reaches the controls in order, arrows choose, space ticks, enter follows; focus stays where it was after a refit."""
    with Opened(browser, folder / "demo.html") as opened:
        opened.settled()
        page = opened.page
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.className") == "skip"
        reached = []
        for _ in range(60):
            page.keyboard.press("Tab")
            reached.append(page.evaluate("document.activeElement.id || document.activeElement.textContent.slice(0, 20)"))
            if reached[-1] == "target":
                break
        assert reached[-1] == "target", reached
        page.keyboard.press("ArrowDown")
        assert page.get_by_label("Target").input_value() != "mdvis"
        assert page.evaluate("document.activeElement.id") == "target"
        page.keyboard.press("Tab")
        page.keyboard.press("Tab")
        page.keyboard.press("Tab")
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.id") == "feature-0"
        before = page.locator(".status").inner_text()
        page.keyboard.press("Space")
        assert not page.locator("#feature-0").is_checked()
        assert page.evaluate("document.activeElement.id") == "feature-0"
        assert page.locator(".status").inner_text() != before
        page.locator("nav a").last.focus()
        page.keyboard.press("Enter")
        assert page.evaluate("document.activeElement.id") == "reading-title"
        opened.quiet()


def test_downloads(browser, folder, mixed, monkeypatch, capsys):
    """SVG that stands on its own, PNG, and code that gives the same coefficients."""
    fragment = "#model=linear&target=visits&feature=age&feature=plan&feature=sick"
    with Opened(browser, folder / "mixed.html", fragment=fragment) as opened:
        opened.settled()
        shown = opened.table()

        def fetched(button: str) -> bytes:
            with opened.page.expect_download() as download:
                opened.page.get_by_role("button", name=button).click()
            return Path(download.value.path()).read_bytes()

        picture = fetched("Plot as SVG").decode()
        ElementTree.fromstring(picture)
        assert "var(" not in picture
        assert "plan=gold" in picture
        assert fetched("Plot as PNG").startswith(b"\x89PNG")
        program, command = fetched("Download as .py").decode(), fetched("Download as .sh").decode()
        opened.quiet()
    monkeypatch.chdir(folder)
    scope: dict[str, object] = {}
    exec(compile(program, "page.py", "exec"), scope)
    assert np.allclose(list(scope["fit"].coef.values()), [row["coef"] for row in shown.values()], rtol=1e-9)
    capsys.readouterr()
    monkeypatch.setattr(sys, "argv", [*shlex.split(command, comments=True), "--json"])
    with pytest.raises(SystemExit) as stop:
        main()
    assert not stop.value.code
    printed = json.loads(capsys.readouterr().out)["coef"]
    assert list(printed) == list(shown)
    assert np.allclose(list(printed.values()), [row["coef"] for row in shown.values()], rtol=1e-9)


def test_a_state_travels_by_address(browser, folder):
    with Opened(browser, folder / "mixed.html") as opened:
        opened.settled()
        page = opened.page
        page.get_by_label("Target").select_option("plan")
        page.get_by_label("Level explained").select_option("2")
        page.get_by_label("Interval").select_option("0.9")
        page.locator("#feature-0").uncheck()
        page.locator("#record-0").fill("7")
        first, address = opened.table(), page.url
        prediction = page.locator(".prediction").inner_text()
        opened.quiet()
    with Opened(browser, folder / "mixed.html", fragment="#" + address.partition("#")[2]) as again:
        again.settled()
        assert again.table() == first
        assert again.page.locator(".prediction").inner_text() == prediction
        assert again.page.get_by_label("Level explained").input_value() == "2"
        again.quiet()


def test_what_is_out_of_range_or_unusual_is_said(browser, folder):
    """Beside its field, aloud, and in the code; a level of confidence that came by address is in its menu."""
    with Opened(browser, folder / "mixed.html", fragment="#target=visits&confidence=0.93&feature=") as opened:
        page = opened.settled().page
        assert page.get_by_label("Interval").evaluate("s => s.selectedOptions[0].text") == "93 %"
        code = page.get_by_label("Command line code")
        code.filter(has_text="no feature at all").wait_for()
        assert page.locator(".status").inner_text().startswith("1 coefficient, fitted in")
        page.get_by_role("button", name="All", exact=True).click()
        code.filter(has_text="ddssp fit").wait_for()
        assert "--features" not in code.inner_text()
        field = page.get_by_label("age", exact=True).and_(page.locator("input[type=number]"))
        said = page.locator(f"#{field.get_attribute('aria-describedby')}")
        assert said.get_attribute("aria-live") == "polite"
        for given, words in (("200", "declared from 18 to 90: 90 counts"), ("", "no number"), ("40", "")):
            field.fill(given)
            assert words in said.inner_text()
            assert field.get_attribute("aria-invalid") == ("true" if words else "false")
            assert bool(said.inner_text()) == bool(words)
        opened.quiet()


def test_associations_have_signs(browser, tmp_path):
    """Two numbers that fall as one rises are of another colour, and the sign is in the words."""
    x = np.random.default_rng(4).random(4000)
    rows = {"up": x, "too": x, "down": 1 - x}
    schema = Schema(columns={name: {"kind": "numeric", "low": 0, "high": 1} for name in rows})
    made = plan(schema, epsilon=8, delta=1e-6, mechanism="moments")
    with Opened(browser, report_of(curate(rows, made, noise=SeededNoise(0)), tmp_path)) as opened:
        cells = opened.page.locator("#pairs rect:has(title)")
        cells.first.wait_for(state="attached")
        found = {
            c[0].partition(":")[0]: c
            for c in cells.evaluate_all("all => all.map((r) => [r.textContent, r.getAttribute('fill')])")
        }
        assert "−" in found["up × down"][0]
        assert "−" not in found["up × too"][0]
        assert found["up × down"][1] == "var(--privacy)" != found["up × too"][1]
        opened.quiet()


def test_bars_of_numbers_and_ordinals_keep_their_order(browser, tmp_path):
    """All of 40 bins, of 90 levels three to a bar and of 100 bins four; of 30 levels without an order the 16 most common."""
    rng = np.random.default_rng(6)
    schema = Schema(
        columns={
            "x": {"kind": "numeric", "low": 0, "high": 80, "bins": 40},
            "rank": {"kind": "ordinal", "levels": 90},
            "fine": {"kind": "numeric", "low": 0, "high": 100, "bins": 100},
            "code": {"kind": "categorical", "levels": 30},
        }
    )
    rows = {
        "x": np.clip(rng.normal(40, 12, 4000), 0, 80),
        "rank": rng.binomial(89, 0.5, 4000),
        "fine": 100 * rng.random(4000),
        "code": rng.choice(30, 4000, p=np.arange(1, 31) / 465),
    }
    release = curate(rows, plan(schema, epsilon=8, delta=1e-6, mechanism="aim"), noise=SeededNoise(0))
    with Opened(browser, report_of(release, tmp_path)) as opened:
        cards = opened.page.locator("#columns .card")

        def drawn(name: str) -> list[str]:
            texts = cards.filter(has=opened.page.get_by_role("heading", name=name, exact=True)).locator("text:has(title)")
            texts.first.wait_for(state="attached")
            return texts.locator("title").evaluate_all("all => all.map((t) => t.textContent)")

        assert drawn("x") == list(schema.resolved["x"].labels)
        assert drawn("rank") == [f"{i} to {i + 2}" for i in range(0, 90, 3)]
        assert "3 neighbours of 90 in each bar." in cards.nth(1).inner_text()
        assert drawn("fine") == [f"[{i}, {i + 4})" for i in range(0, 96, 4)] + ["[96, 100]"]
        assert len(drawn("code")) == 16
        assert drawn("code")[0] in {"27", "28", "29"}
        opened.quiet()


def test_an_association_that_rounds_to_nothing_has_no_sign(browser, folder, tmp_path):
    """Estimated tables know no error, so that every pair is written: .00, in neither colour."""
    text = (folder / "mixed.html").read_text(encoding="utf-8")
    start = text.index(">", text.index('id="release"')) + 1
    end = text.index("</script>", start)
    given = json.loads(text[start:end])
    first, second, *_ = given["association"]
    given["association"] = [first | {"value": -0.004, "error": None}, second | {"value": -0.006, "error": None}]
    (tmp_path / "r.html").write_text(text[:start] + json.dumps(given) + text[end:], encoding="utf-8")
    with Opened(browser, tmp_path / "r.html") as opened:
        cells = opened.page.locator("#pairs rect:has(title)")
        cells.first.wait_for(state="attached")
        assert set(cells.evaluate_all("all => all.map((r) => r.getAttribute('fill'))")) == {"var(--surface)", "var(--privacy)"}
        shown = opened.page.locator("#pairs svg text").all_text_contents()
        assert shown.count(".00") == shown.count("−.01") == 2
        assert "−.00" not in shown
        opened.quiet()


@pytest.mark.parametrize(
    "fragment", ["#target=<script>alert(1)</script>", "#model=nonsense&of=99&confidence=7", "#%E0%A4%A", "#feature="]
)
def test_any_address_is_harmless(browser, folder, fragment):
    with Opened(browser, folder / "mixed.html", fragment=fragment) as opened:
        opened.settled()
        opened.quiet()


def assert_axis_is_named(page, range_: str) -> None:
    """The axis of the coefficient plot says what it is, and no letter of that is cut off, below its line either."""
    name = page.get_by_text(f"coefficient; of numbers: over their {range_}", exact=True).bounding_box()
    plot = page.locator("#explorer figure svg").first.bounding_box()
    assert plot["x"] <= name["x"]
    assert name["x"] + name["width"] <= plot["x"] + plot["width"]
    assert name["y"] + name["height"] <= plot["y"] + plot["height"] - 2


def test_dark_light_narrow_and_wide(browser, folder):
    """By the system's wish and by the button, on one page that is resized: nothing sticks out, paper and ink change places."""
    with Opened(browser, folder / "mixed.html") as opened:
        opened.settled()
        page = opened.page

        def shade() -> int:
            return int(page.evaluate("getComputedStyle(document.body).backgroundColor").split("(")[1].split(",")[0])

        for dark in (False, True):
            page.emulate_media(color_scheme="dark" if dark else "light")
            assert shade() < 60 if dark else shade() > 200
            page.locator(f".theme[aria-pressed={str(dark).lower()}]").wait_for()
            for width in (380, 1600):
                page.set_viewport_size({"width": width, "height": 900})
                assert page.evaluate("document.documentElement.scrollWidth") <= width
                assert_axis_is_named(page, "range" if width < 520 else "declared range")
        page.get_by_role("button", name="Dark").click()
        assert shade() > 200
        page.set_viewport_size({"width": 380, "height": 900})
        page.locator("#guarantee details").last.evaluate("d => (d.open = true)")
        kind = page.get_by_label("Declared columns").get_by_role("cell", name="categorical", exact=True).first
        assert (
            kind.evaluate(
                "c => { const r = document.createRange(); r.selectNodeContents(c); return r.getClientRects().length }"
            )
            == 1
        )
        assert page.evaluate("document.documentElement.scrollWidth") <= 380
        opened.quiet()


def test_print_shows_results_and_hides_controls(browser, folder):
    with Opened(browser, folder / "demo.html", dark=True) as opened:
        opened.settled()
        opened.page.emulate_media(media="print")
        assert not opened.page.locator(".controls").is_visible()
        assert not opened.page.get_by_role("button").first.is_visible()
        assert opened.page.locator("#explorer table").first.is_visible()
        assert opened.page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
        assert opened.page.pdf().startswith(b"%PDF")


SCRIPT, FORMULA, IMAGE = (
    "<script>window.hacked = 1</script>",
    "=cmd|' /C calc'!A0",
    '</script><img src=x onerror="window.hacked=2">',
)


def test_hostile_labels_are_inert(browser, tmp_path):
    """Markup and formulas as names of columns, levels, unit and dataset are text everywhere, and quoted in the CSV."""
    rng = np.random.default_rng(0)
    columns = {
        SCRIPT: {"kind": "numeric", "low": 0, "high": 1},
        FORMULA: {"kind": "categorical", "levels": [IMAGE, "=1+1", "@x", "'; DROP"]},
        IMAGE: {"kind": "boolean"},
    }
    rows = {
        SCRIPT: rng.random(3000),
        FORMULA: rng.choice([IMAGE, "=1+1", "@x", "'; DROP"], 3000),
        IMAGE: rng.random(3000) < 0.5,
    }
    made = plan(Schema(name=SCRIPT, unit=IMAGE, columns=columns), epsilon=8, delta=1e-6, mechanism="moments")
    with Opened(browser, report_of(curate(rows, made, noise=SeededNoise(0)), tmp_path)) as opened:
        opened.settled()
        page = opened.page
        assert page.title().startswith(SCRIPT)
        assert page.locator("h1").inner_text() == SCRIPT
        assert page.locator("img").count() == 0
        with page.expect_download() as download:
            page.get_by_role("button", name="Table as CSV").click()
        text = Path(download.value.path()).read_text(encoding="utf-8")
        cells = [row[0] for row in csv.reader(io.StringIO(text))]
        assert f"\"'{FORMULA}='; DROP\"," in text  # some spreadsheets split at semicolons
        assert any(cell.startswith("'=cmd") for cell in cells)
        assert not any(cell.startswith(("=", "+", "-", "@")) for cell in cells)
        page.get_by_label("Target").select_option(FORMULA)
        opened.settled()
        assert page.evaluate("window.hacked") is None
        program = page.locator(".code code").first.inner_text()
        compile(program, "page.py", "exec")
        assert repr(FORMULA)[1:-1] in program or FORMULA in program
        opened.quiet()


def test_columns_named_like_what_every_object_has(browser, tmp_path):
    """Their references and values in the made-up record are theirs, count, and travel by address."""
    names, rng = ("constructor", "toString", "__proto__"), np.random.default_rng(7)
    columns = {n: {"kind": "categorical", "levels": ["a", "b", "c"]} for n in names}
    rows = {n: rng.choice(["a", "b", "c"], 4000, p=[0.2, 0.2, 0.6]) for n in names}
    columns["y"], rows["y"] = {"kind": "numeric", "low": 0, "high": 1}, rng.random(4000)
    release = curate(rows, plan(Schema(columns=columns), epsilon=8, delta=1e-6, mechanism="moments"), noise=SeededNoise(0))
    path = report_of(release, tmp_path)
    with Opened(browser, path, fragment="#target=y") as opened:
        page = opened.settled().page
        page.locator("details.references").evaluate("d => (d.open = true)")
        against = [page.locator(f"select[data-column={n}]") for n in names]
        records = [page.locator(f"#record-{i}") for i in range(3)]
        assert [field.input_value() for field in (*against, *records)] == ["0"] * 6
        page.get_by_role("button", name="The most common level of each").click()
        assert [field.input_value() for field in against] == ["2"] * 3
        page.get_by_role("button", name="The first", exact=True).click()
        assert [field.input_value() for field in against] == ["0"] * 3
        for field in (*against, *records):
            field.select_option("1")
        table, prediction = opened.table(), page.locator(".prediction").inner_text()
        assert set(table) == {"intercept"} | {f"{n}={level}" for n in names for level in "ac"}
        expected = release.linear("y").predict({n: ["b"] for n in names})[0]
        assert float(page.locator(".prediction").get_attribute("data-value")) == pytest.approx(expected, rel=1e-9)
        address = page.url
        assert address.count("against.") == address.count("at.") == 3
        opened.quiet()
    with Opened(browser, path, fragment="#" + address.partition("#")[2]) as again:
        page = again.settled().page
        assert again.table() == table
        assert page.locator(".prediction").inner_text() == prediction
        fields = [page.locator(f"select[data-column={n}]") for n in names] + [page.locator(f"#record-{i}") for i in range(3)]
        page.wait_for_function("document.getElementById('record-2').value === '1'")
        assert [field.input_value() for field in fields] == ["1"] * 6
        again.quiet()


def test_axe_finds_nothing_serious(browser, folder):
    """Every rule on a wide and on a narrow page; in the dark those that colours can break."""
    if not AXE.exists():
        pytest.skip("needs axe-core: `npm ci` in explorer/")
    with Opened(browser, folder / "mixed.html") as opened:
        page = opened.settled().page
        page.evaluate("document.querySelectorAll('details').forEach((d) => (d.open = true))")
        page.evaluate(AXE.read_text(encoding="utf-8"))
        colours = "runOnly: ['color-contrast', 'link-in-text-block'], "
        for width, dark, rules in ((1200, False, ""), (1200, True, colours), (380, False, "")):
            page.set_viewport_size({"width": width, "height": 900})
            page.emulate_media(color_scheme="dark" if dark else "light")
            found = page.evaluate(f"axe.run({{{rules}resultTypes: ['violations']}}).then((r) => r.violations)")
            serious = [(v["id"], v["nodes"][0]["html"]) for v in found if v["impact"] in {"serious", "critical"}]
            assert serious == [], (width, dark)


def test_a_task_release_shows_its_one_fit(browser, tmp_path):
    rng = np.random.default_rng(1)
    schema = Schema(columns={"x": {"kind": "numeric", "low": 0, "high": 1}, "y": {"kind": "boolean"}})
    rows = {"x": rng.random(2000), "y": rng.random(2000) < 0.5}
    release = curate(rows, plan(schema, epsilon=2, delta=1e-6, mechanism="task", target="y"), noise=SeededNoise(0))
    with Opened(browser, report_of(release, tmp_path)) as opened:
        assert "one record. Whoever has several records is protected less." in opened.page.locator("#guarantee").inner_text()
        assert opened.page.get_by_role("heading", name="The logistic regression of y").is_visible()
        assert "no standard errors" in opened.page.locator("#fit").inner_text()
        opened.quiet()
