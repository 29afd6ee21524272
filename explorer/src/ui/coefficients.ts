/** The coefficient table: what can be seen of it changes at once, the rest after the next paint. */

import { limits, significance, type Coefficient, type Fit } from "../fit/fit";
import { fill, h, number } from "./dom";

/** Rows that are written in one go. */
const BATCH = 20;
const SHORTEST = 8;

const NOT_NORMAL = "“not normal”: coefficients are read from second moments as if features were normal. Where levels, or a mean near a declared bound, show that they are not and it matters, there is no interval.";

interface Row {
  readonly element: HTMLTableRowElement;
  readonly cells: readonly Text[];
}

export class CoefficientTable {
  readonly element: HTMLElement;
  private readonly caption = h("caption", {});
  private readonly head = h("tr", {});
  private readonly body = h("tbody", {});
  private readonly note = h("p", { class: "note" });
  private readonly scroll: HTMLElement;
  private readonly table: HTMLTableElement;
  private readonly rows: Row[] = [];
  private pending: (() => boolean) | null = null;
  private longest = SHORTEST;
  private top = 0;

  constructor(private readonly whyNoIntervals: string) {
    this.table = h("table", { class: "coefficients" }, this.caption, h("thead", {}, this.head), this.body);
    this.scroll = h("div", { class: "scroll", role: "region", tabindex: 0, "aria-label": "Coefficients" }, this.table);
    this.scroll.addEventListener("scroll", () => (this.top = this.scroll.scrollTop), { passive: true });
    this.element = h("div", {}, this.scroll, this.note);
  }

  /** Shows the part of a fit that can be seen; `rest` goes on with the others. */
  show(f: Fit, confidence: number): void {
    const headings = headingsOf(f, confidence), count = f.coefficients.length, first = this.firstVisible();
    this.caption.textContent = `${f.ask.model[0]!.toUpperCase()}${f.ask.model.slice(1)} regression of ${f.ask.target}`;
    if (headings.length !== this.head.childElementCount) this.rows.splice(0).forEach((row) => row.element.remove());
    if (headings.join("\0") !== Array.from(this.head.children, (c) => c.textContent).join("\0")) {
      fill(this.head, ...headings.map((text) => h("th", { scope: "col" }, text)));
    }
    if (count < first + BATCH) this.cut(count);
    this.table.classList.toggle("plain", !f.covered);
    this.note.textContent = f.covered ? hiddenNote(f) : this.whyNoIntervals;
    const left = new Set(f.coefficients.keys());
    const write = (from: number) => {
      for (let i = from; i < Math.min(from + BATCH, count); i++) if (left.delete(i)) this.write(i, f.coefficients[i]!, f.covered, confidence);
    };
    // new rows are added in order, so what is seen comes first only where it is there already
    write(first < this.rows.length ? first : this.rows.length);
    this.pending = () => {
      this.cut(count);
      const next = left.values().next();
      if (!next.done) write(next.value);
      this.scroll.setAttribute("aria-busy", String(left.size > 0));
      return left.size > 0;
    };
    this.scroll.setAttribute("aria-busy", String(left.size > 0));
  }

  /** Writes some of the rows that are not written yet; false when there are none. */
  rest(): boolean {
    if (this.pending?.()) return true;
    this.pending = null;
    return false;
  }

  /** Takes away rows that the fit does not have. */
  private cut(count: number): void {
    this.rows.splice(count).forEach((row) => row.element.remove());
  }

  private firstVisible(): number {
    if (this.top === 0) return 0;
    return Math.max(this.rows.findIndex(({ element }) => element.offsetTop + element.offsetHeight >= this.top), 0);
  }

  private write(i: number, c: Coefficient, covered: boolean, confidence: number): void {
    let row = this.rows[i];
    if (!row) {
      const cells = Array.from(this.head.children, () => document.createTextNode(""));
      row = { element: h("tr", {}, ...cells.map((text, at) => (at === 0 ? h("th", { scope: "row" }, text) : h("td", {}, text)))), cells };
      this.rows.push(row);
      this.body.append(row.element);
    }
    const known = c.estimate !== null;
    textsOf(c, covered, confidence).forEach((text, at) => {
      const cell = row.cells[at]!;
      if (cell.data !== text) cell.data = text;
      if (at > 0 && text.length > this.longest && known) this.widen(text.length);
    });
    row.element.classList.toggle("hidden-by-noise", covered && !known);
  }

  /** Columns are as wide as their longest number, so that a change of numbers moves nothing. */
  private widen(letters: number): void {
    this.longest = letters;
    this.table.style.setProperty("--letters", String(letters));
  }
}

export function counted(coefficients: number): string {
  return `${coefficients} ${coefficients === 1 ? "coefficient" : "coefficients"}`;
}

function headingsOf(f: Fit, confidence: number): readonly string[] {
  const low = (1 - confidence) / 2;
  return f.covered ? ["", "coef", "estimate", "std err", "sampling", "privacy", "z", "P>|z|", `[${number(low)}`, `${number(1 - low)}]`] : ["", "coef"];
}

function textsOf(c: Coefficient, covered: boolean, confidence: number): readonly string[] {
  if (!covered) return [c.name, number(c.coef)];
  const test = significance(c), ends = limits(c, confidence);
  if (!test || !ends) return [c.name, number(c.coef), c.notNormal ? "not normal" : "not identified", "", "", "", "", "", "", ""];
  return [c.name, number(c.coef), number(c.estimate), number(c.stderr), number(c.sampling), number(c.privacy), test.z.toFixed(2).replace("-", "−"),
    test.p < 0.0005 ? "<0.001" : test.p.toFixed(3), number(ends[0]), number(ends[1])];
}

function hiddenNote(f: Fit): string {
  const hidden = f.coefficients.filter((c) => c.estimate === null && !c.notNormal).length;
  const unlike = f.coefficients.some((c) => c.notNormal);
  return [unlike && NOT_NORMAL, hidden > 0 && `${hidden} of ${counted(f.coefficients.length)} ${hidden === 1 ? "is not identified: the noise hides it" : "are not identified: the noise hides them"}.`].filter(Boolean).join(" ");
}
