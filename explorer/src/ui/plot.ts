/** The coefficient plot, its legend, and the choice between the clearest coefficients and all. */

import type { Contract } from "../contract";
import type { Coefficient, Fit } from "../fit/fit";
import { coefficients, type Drawn } from "./charts";
import { fill, fitted, h, number } from "./dom";

const MOST_DRAWN = 30;

export class CoefficientPlot {
  readonly chart = h("div", { class: "chart", role: "img" });
  private readonly note = h("div", {});
  readonly element = h("figure", {}, h("figcaption", {}, "Coefficients and where their error comes from"), this.chart, this.note);
  private drawn: readonly Drawn[] = [];
  private confidence = 0.95;
  private all = false;

  constructor(private readonly contract: Contract) {
    fitted(this.chart, (width) => coefficients(this.drawn, this.confidence, width));
  }

  show(f: Fit, confidence: number): void {
    const slopes = f.coefficients.filter((c) => c.column !== null), kept = new Set(this.all ? slopes : clearest(slopes));
    this.drawn = slopes.filter((c) => kept.has(c)).map((c) => ({ c, unit: rangeOf(this.contract, c.column!) }));
    this.confidence = confidence;
    const known = this.drawn.filter((d) => d.c.estimate !== null).length;
    this.chart.setAttribute("aria-label",
      `Coefficients of ${f.ask.target}: ${known} of ${this.drawn.length} drawn are identified. The table below has all numbers.`);
    fill(this.chart, coefficients(this.drawn, confidence, Math.max(this.chart.clientWidth, 240)));
    const more = slopes.length > MOST_DRAWN && h("button", {
      type: "button", onclick: () => {
        this.all = !this.all;
        this.show(f, confidence);
      },
    }, this.all ? `Draw the ${clearest(slopes).length} clearest only` : `Draw all ${slopes.length}`);
    fill(this.note, legend(f.covered, confidence), more);
  }
}

/** The coefficients that stand out most from their error, those that are identified first; all where there are few. */
function clearest(slopes: readonly Coefficient[]): readonly Coefficient[] {
  if (slopes.length <= MOST_DRAWN) return slopes;
  const known = slopes.filter((c) => c.estimate !== null);
  return [...(known.length ? known : slopes)].sort((a, b) => strength(b) - strength(a)).slice(0, MOST_DRAWN);
}

function strength(c: Coefficient): number {
  return c.estimate === null ? Math.abs(c.coef) : Math.abs(c.estimate) / Math.max(c.stderr ?? 1, 1e-12);
}

function rangeOf(contract: Contract, column: string): number {
  const block = contract.blocks.find((b) => b.column === column);
  return block?.scalar ? 2 * block.half : 1;
}

function legend(covered: boolean, confidence: number): HTMLElement {
  const parts = covered
    ? [["total", `${number(100 * confidence)} % interval`], ["privacy", "privacy error alone"], ["sampling", "sampling error alone"], ["hollow", "no interval (shrunken)"]]
    : [["hollow", "coefficient (shrunken); this release has no intervals"]];
  return h("ul", { class: "legend" }, ...parts.map(([key, text]) => h("li", {}, h("span", { class: `key ${key}` }), text)));
}
