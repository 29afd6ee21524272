/** What another ε would have given: the same estimates with more noise or with less. */

import type { Contract } from "../contract";
import { fit, type Fit } from "../fit/fit";
import type { Moments } from "../fit/equations";
import { preview, type WhatIf } from "./charts";
import { fill, fitted, h, number, table } from "./dom";

/** Milliseconds without a change before the comparison starts. */
const REST = 400;

/** The panel: works in steps while nothing else is asked, and starts anew with every fit. */
export class Comparison {
  readonly element = h("div", {});
  private timer = 0;

  constructor(private readonly contract: Contract, private readonly moments: Moments) {}

  stop(): void {
    clearTimeout(this.timer);
  }

  show(f: Fit): void {
    this.stop();
    if (!f.covered) return fill(this.element, h("p", {}, this.contract.whyNoIntervals ?? ""));
    fill(this.element, h("p", { class: "note" }, "Working it out …"));
    const rows: WhatIf[] = [], left = steps(this.contract, this.moments, f);
    const next = (): void => {
      const step = left.next();
      if (step.done) return fill(this.element, ...whatIfView(rows, this.contract.about.epsilon, f));
      rows.push(step.value);
      this.timer = window.setTimeout(next);
    };
    this.timer = window.setTimeout(next, REST);
  }
}

/** One step per ε of the contract; each computes at most one fit.
 *
 * Privacy variances are proportional to the noise's, so they follow without a fit. How many coefficients more noise would hide takes
 * one with that noise declared; how many less noise would show cannot be asked of moments that have more.
 */
function* steps(contract: Contract, moments: Moments, f: Fit): Generator<WhatIf> {
  const known = f.coefficients.filter((c) => c.estimate !== null), slopes = known.filter((c) => c.column !== null);
  for (const { epsilon, rho } of contract.preview) {
    const factor = contract.about.rho / rho, found = factor > 1 ? fit(moments, { ...f.ask, noiseFactor: factor }).coefficients : f.coefficients;
    yield {
      epsilon, total: median(slopes.map((c) => Math.hypot(c.sampling!, c.privacy! * Math.sqrt(factor)))), sampling: median(slopes.map((c) => c.sampling!)),
      identified: Math.min(found.filter((c) => c.estimate !== null).length, known.length), atLeast: factor < 1 && known.length < f.coefficients.length,
    };
  }
}

function median(values: readonly number[]): number | null {
  const sorted = [...values].sort((a, b) => a - b), half = Math.floor(sorted.length / 2);
  if (!sorted.length) return null;
  return sorted.length % 2 ? sorted[half]! : (sorted[half - 1]! + sorted[half]!) / 2;
}

function whatIfView(rows: readonly WhatIf[], now: number, f: Fit): HTMLElement[] {
  const label = `Typical standard error at other ε: ${rows.map((r) => `${number(r.epsilon)}: ${number(r.total)}`).join(", ")}`;
  const host = h("div", { class: "chart", role: "img", "aria-label": label }), any = rows.some((r) => r.total !== null);
  if (!any) return [h("p", { class: "note" }, "No coefficient is identified here; fewer features, or a common reference level, may help.")];
  fitted(host, (width) => preview(rows, now, Math.min(width, 560)));
  return [
    h("p", {}, "The median standard error of the coefficients that are identified now, had the same data been released with another ε, and how many would be identified. ",
      "The blue line is sampling error, which no ε takes away; the orange dot is this release."),
    host,
    table("Typical standard error at other ε", ["ε", "median std err", "of it sampling", "identified"],
      rows.map((r) => [number(r.epsilon), number(r.total), number(r.sampling), `${r.atLeast ? "at least " : ""}${r.identified} of ${f.coefficients.length}`]),
      "Other values of ε"),
  ];
}
