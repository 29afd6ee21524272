/** The explorer: one regression at a time, fitted in the page. */

import type { Contract } from "../contract";
import { fit, FitError, predicted, type Fit } from "../fit/fit";
import type { Moments } from "../fit/equations";
import { coefficients, type Drawn, type WhatIf } from "./charts";
import { CoefficientTable } from "./coefficients";
import { controls, follow } from "./controls";
import { commandLine, csv, png, python, save, svgText } from "./download";
import { fill, fitted, h, number, percent } from "./dom";
import { madeUp } from "./person";
import { section } from "./sections";
import { columnOf, completed, parsed, written, type State } from "./state";
import { steps, whatIfView } from "./whatif";

const MOST_DRAWN = 30;

export function explorer(contract: Contract, moments: Moments): HTMLElement {
  let state = parsed(contract, location.hash), found: Fit | null = null, all = false;
  const columns = new Map(contract.columns.map((c) => [c.name, c]));
  const status = h("p", { class: "status", role: "status" }), refusal = h("p", { class: "warning", role: "alert", hidden: true });
  const plot = h("div", { class: "chart", role: "img" }), plotNote = h("div", {}), results = h("div", { class: "results" });
  const facts = h("dl", { class: "facts" }), prediction = h("output", { class: "prediction", for: "" });
  const whatIf = h("div", {}), pythonCode = h("code", {}), shellCode = h("code", {}), rows = new CoefficientTable(contract.whyNoIntervals ?? "");
  let drawn: readonly Drawn[] = [], timer = 0, asked = 0;
  /** What has not been brought up to date yet. */
  let later: (() => boolean)[] = [];

  const change = (next: State): void => {
    state = next;
    refit();
  };
  const person = madeUp(contract, (column, value) => {
    state = { ...state, person: { ...state.person, [column]: value } };
    addressed();
    if (found) predict(found);
  });
  const panel = controls(contract, () => state, change);
  follow(() => state);

  const refit = (): void => {
    const start = performance.now();
    try {
      found = fit(moments, { ...state, noiseFactor: 1 });
      refusal.hidden = true;
    } catch (error) {
      if (!(error instanceof FitError)) throw error;
      found = null;
      refusal.textContent = error.message;
      refusal.hidden = false;
    }
    const took = performance.now() - start;
    results.hidden = found === null;
    panel.show();
    if (found) {
      status.textContent = `${found.coefficients.length} coefficients, fitted in ${took < 10 ? took.toFixed(1) : Math.round(took)} ms`;
      status.dataset["milliseconds"] = String(took);
      show(found);
    } else status.textContent = "";
  };

  /** Numbers at once; plot, the rows that are out of sight and the code after the next paint. */
  const show = (f: Fit): void => {
    fill(facts, ...f.facts.map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, number(value)))));
    rows.show(f, state.confidence);
    predict(f);
    clearTimeout(timer);
    later = [() => draw(f), () => recorded(), () => addressed(), () => codes(), () => rows.rest(), () => wait(f)];
    const turn = ++asked, go = () => {
      if (turn !== asked || !later.length) return;
      if (!later[0]!()) later.shift();
      setTimeout(go);
    };
    requestAnimationFrame(() => setTimeout(go));
  };

  /** Everything, now: for printing and for whatever takes the page as it stands. */
  const finish = (): void => {
    for (const step of later) while (step());
    later = [];
  };
  window.addEventListener("beforeprint", finish);
  const finished = (element: HTMLElement): HTMLElement => {
    finish();
    return element;
  };

  const recorded = (): boolean => {
    person.show(state);
    return false;
  };

  const addressed = (): boolean => {
    history.replaceState(null, "", `#${written(contract, state)}`);
    return false;
  };

  const codes = (): boolean => {
    pythonCode.textContent = python(contract, state);
    shellCode.textContent = commandLine(contract, state);
    return false;
  };

  const wait = (f: Fit): boolean => {
    fill(whatIf, h("p", { class: "note" }, "Working it out …"));
    timer = window.setTimeout(() => compare(f), 400);
    return false;
  };

  const predict = (f: Fit): void => {
    const value = predicted(f, columns, completed(contract, state.person));
    prediction.textContent = f.ask.model === "logistic" ? `${percent(value)} chance of ${levelName(contract, state)}` : `${number(value)} expected ${state.target}`;
    prediction.dataset["value"] = String(value);
  };

  const draw = (f: Fit): boolean => {
    const slopes = f.coefficients.filter((c) => c.column !== null), known = slopes.filter((c) => c.estimate !== null);
    const ranked = [...(known.length ? known : slopes)].sort((a, b) => strength(b) - strength(a)).slice(0, MOST_DRAWN);
    const kept = new Set(all || slopes.length <= MOST_DRAWN ? slopes : ranked);
    drawn = slopes.filter((c) => kept.has(c)).map((c) => ({ c, unit: rangeOf(contract, c.column!) }));
    const least = drawn.filter((d) => d.c.estimate !== null).length;
    plot.setAttribute("aria-label", `Coefficients of ${state.target}: ${least} of ${drawn.length} drawn are identified. The table below has all numbers.`);
    fill(plot, coefficients(drawn, state.confidence, Math.max(plot.clientWidth, 240)));
    const more = slopes.length > MOST_DRAWN && h("button", {
      type: "button", onclick: () => {
        all = !all;
        draw(f);
      },
    }, all ? `Draw the ${ranked.length} clearest only` : `Draw all ${slopes.length}`);
    const parts = [["total", `${number(100 * state.confidence)} % interval`], ["privacy", "privacy error alone"], ["sampling", "sampling error alone"],
      ["hollow", "no interval (shrunken)"]] as const;
    const shown = f.covered ? parts : ([["hollow", "coefficient (shrunken); this release has no intervals"]] as const);
    fill(plotNote, h("ul", { class: "legend" }, ...shown.map(([key, text]) => h("li", {}, h("span", { class: `key ${key}` }), text))), more);
    return false;
  };

  const compare = (f: Fit): void => {
    if (!f.covered) {
      fill(whatIf, h("p", {}, contract.whyNoIntervals ?? ""));
      return;
    }
    const rows: WhatIf[] = [], left = steps(contract, moments, f);
    const next = (): void => {
      const step = left.next();
      if (step.done) {
        fill(whatIf, ...whatIfView(rows, contract.about.epsilon, f));
        return;
      }
      rows.push(step.value);
      timer = window.setTimeout(next);
    };
    next();
  };

  const name = () => `${contract.about.name}-${state.target}`.replace(/[^\w-]+/g, "_");
  const copied = h("span", { class: "note", role: "status" });
  const link = h("button", {
    type: "button", onclick: () => {
      addressed();
      const say = (text: string) => {
        copied.textContent = text;
        setTimeout(() => (copied.textContent = ""), 4000);
      };
      void (navigator.clipboard?.writeText(location.href) ?? Promise.reject()).then(() => say("Copied."), () => say("Not allowed here: copy the address bar."));
    },
  }, "Copy link to this state");
  fill(results, facts,
    h("figure", {}, h("figcaption", {}, "Coefficients and where their error comes from"), plot, plotNote),
    h("div", { class: "buttons downloads" },
      h("button", { type: "button", onclick: () => found && save(`${name()}.csv`, "text/csv;charset=utf-8", csv(found, state.confidence)) }, "Table as CSV"),
      h("button", { type: "button", onclick: () => save(`${name()}.svg`, "image/svg+xml", svgText(finished(plot))) }, "Plot as SVG"),
      h("button", { type: "button", onclick: () => void png(finished(plot)).then((blob) => save(`${name()}.png`, "image/png", blob)) }, "Plot as PNG"),
      link, copied),
    rows.element,
    h("h3", {}, "A made-up record"),
    h("p", {}, "What the fit expects of somebody with these values; change any of them."), person.element,
    h("p", { "aria-live": "polite" }, prediction),
    h("h3", {}, "Had ε been larger"), whatIf,
    h("h3", {}, "The same elsewhere"),
    h("div", { class: "two code" }, codeBlock("Python", pythonCode, () => `${name()}.py`), codeBlock("Command line", shellCode, () => `${name()}.sh`)));
  fitted(plot, (width) => coefficients(drawn, state.confidence, width));
  window.addEventListener("hashchange", () => {
    state = parsed(contract, location.hash);
    refit();
  });
  const whole = section("explorer", "Regressions",
    h("p", {}, "Choose what to explain and by what. The fit runs in this page, by the same algorithm as Python's, from the released second moments."),
    panel.element, status, refusal, results);
  requestAnimationFrame(refit);
  return whole;
}

function strength(c: { readonly estimate: number | null; readonly stderr: number | null; readonly coef: number }): number {
  return c.estimate === null ? Math.abs(c.coef) : Math.abs(c.estimate) / Math.max(c.stderr ?? 1, 1e-12);
}

function rangeOf(contract: Contract, column: string): number {
  const block = contract.blocks.find((b) => b.column === column);
  return block?.scalar ? 2 * block.half : 1;
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
