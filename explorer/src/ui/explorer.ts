/** The explorer: one regression at a time, fitted in the page. */

import type { Contract } from "../contract";
import { fit, FitError, predicted, type Fit } from "../fit/fit";
import type { Moments } from "../fit/equations";
import { CoefficientTable, counted } from "./coefficients";
import { controls } from "./controls";
import { commandLine, csv, png, python, save, svgText } from "./download";
import { fill, h, number, percent } from "./dom";
import { madeUp } from "./person";
import { CoefficientPlot } from "./plot";
import { section } from "./sections";
import { columnOf, completed, parsed, written, type State } from "./state";
import { Comparison } from "./whatif";

/** What has not been brought up to date yet is done in turns after the next paint; `finish` does it at once. */
class Later {
  private steps: (() => boolean | void)[] = [];
  private asked = 0;

  /** A step that returns true is called again. */
  begin(...steps: readonly (() => boolean | void)[]): void {
    this.steps = [...steps];
    const turn = ++this.asked, go = () => {
      if (turn !== this.asked || !this.steps.length) return;
      if (!this.steps[0]!()) this.steps.shift();
      setTimeout(go);
    };
    requestAnimationFrame(() => setTimeout(go));
  }

  finish(): void {
    for (const step of this.steps) while (step());
    this.steps = [];
  }
}

export function explorer(contract: Contract, moments: Moments): HTMLElement {
  let state = parsed(contract, location.hash), found: Fit | null = null;
  const columns = new Map(contract.columns.map((c) => [c.name, c]));
  const status = h("p", { class: "status", role: "status" }), refusal = h("p", { class: "warning", role: "alert", hidden: true });
  const results = h("div", { class: "results" }), facts = h("dl", { class: "facts" }), prediction = h("output", { class: "prediction", for: "" });
  const pythonCode = h("code", {}), shellCode = h("code", {}), later = new Later();
  const rows = new CoefficientTable(contract.whyNoIntervals ?? ""), plot = new CoefficientPlot(contract), comparison = new Comparison(contract, moments);

  const refit = (): void => {
    const start = performance.now();
    [found, refusal.textContent] = attempted(moments, state);
    const took = performance.now() - start;
    refusal.hidden = found !== null;
    results.hidden = found === null;
    panel.show();
    status.textContent = found ? `${counted(found.coefficients.length)}, fitted in ${took < 10 ? took.toFixed(1) : Math.round(took)} ms` : "";
    status.dataset["milliseconds"] = String(took);
    if (found) show(found);
  };

  /** Numbers at once; plot, the rows that are out of sight and the code after the next paint. */
  const show = (f: Fit): void => {
    fill(facts, ...f.facts.map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, number(value)))));
    rows.show(f, state.confidence);
    predict(f);
    comparison.stop();
    later.begin(() => plot.show(f, state.confidence), () => person.show(state), addressed, codes, () => rows.rest(), () => comparison.show(f));
  };

  const addressed = (): void => history.replaceState(null, "", `#${written(contract, state)}`);

  const codes = (): void => {
    pythonCode.textContent = python(contract, state);
    shellCode.textContent = commandLine(contract, state);
  };

  const predict = (f: Fit): void => {
    const value = predicted(f, columns, completed(contract, state.person));
    prediction.textContent = f.ask.model === "logistic" ? `${percent(value)} chance of ${levelName(contract, state)}` : `${number(value)} expected ${state.target}`;
    prediction.dataset["value"] = String(value);
  };

  const person = madeUp(contract, (column, value) => {
    state = { ...state, person: { ...state.person, [column]: value } };
    addressed();
    if (found) predict(found);
  });
  const panel = controls(contract, () => state, (next) => {
    state = next;
    refit();
  });
  window.addEventListener("beforeprint", () => later.finish());
  window.addEventListener("hashchange", () => {
    state = parsed(contract, location.hash);
    refit();
  });

  const name = () => `${contract.about.name}-${state.target}`.replace(/[^\w-]+/g, "_");
  const chart = (): HTMLElement => {
    later.finish();
    return plot.chart;
  };
  fill(results, facts, plot.element,
    h("div", { class: "buttons downloads" },
      h("button", { type: "button", onclick: () => found && save(`${name()}.csv`, "text/csv;charset=utf-8", csv(found, state.confidence)) }, "Table as CSV"),
      h("button", { type: "button", onclick: () => save(`${name()}.svg`, "image/svg+xml", svgText(chart())) }, "Plot as SVG"),
      h("button", { type: "button", onclick: () => void png(chart()).then((blob) => save(`${name()}.png`, "image/png", blob)) }, "Plot as PNG"),
      ...link(addressed)),
    rows.element,
    h("h3", {}, "A made-up record"),
    h("p", {}, "What the fit expects of somebody with these values; change any of them."), person.element,
    h("p", { "aria-live": "polite" }, prediction),
    h("h3", {}, "Had ε been larger"), comparison.element,
    h("h3", {}, "The same elsewhere"),
    h("div", { class: "two code" }, codeBlock("Python", pythonCode, () => `${name()}.py`), codeBlock("Command line", shellCode, () => `${name()}.sh`)));
  requestAnimationFrame(refit);
  return section("explorer", "Regressions",
    h("p", {}, "Choose what to explain and by what. The fit runs in this page, by the same algorithm as Python's, from the released second moments."),
    panel.element, status, refusal, results);
}

/** The fit, or why there is none. */
function attempted(moments: Moments, state: State): [Fit | null, string] {
  try {
    return [fit(moments, { ...state, noiseFactor: 1 }), ""];
  } catch (error) {
    if (!(error instanceof FitError)) throw error;
    return [null, error.message];
  }
}

/** A button that copies the address of the state, and what came of it. */
function link(addressed: () => void): HTMLElement[] {
  const copied = h("span", { class: "note", role: "status" });
  const say = (text: string) => {
    copied.textContent = text;
    setTimeout(() => (copied.textContent = ""), 4000);
  };
  const copy = () => {
    addressed();
    void (navigator.clipboard?.writeText(location.href) ?? Promise.reject()).then(() => say("Copied."), () => say("Not allowed here: copy the address bar."));
  };
  return [h("button", { type: "button", onclick: copy }, "Copy link to this state"), copied];
}

function levelName(contract: Contract, state: State): string {
  const labels = columnOf(contract, state.target).labels;
  const label = labels.length === 2 ? labels[1]! : labels[state.level]!;
  return `${state.target} = ${label || "(empty)"}`;
}

function codeBlock(title: string, code: HTMLElement, name: () => string): HTMLElement {
  return h("div", {}, h("h4", {}, title), h("pre", { tabindex: 0, role: "region", "aria-label": `${title} code` }, code),
    h("button", { type: "button", onclick: () => save(name(), "text/plain;charset=utf-8", `${code.textContent}\n`) }, `Download as ${title === "Python" ? ".py" : ".sh"}`));
}
