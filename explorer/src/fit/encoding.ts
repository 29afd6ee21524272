/** The blocks of a record z, and the way from their coefficients to those that a person reads (model/scale.py). */

import { numberOf, type Block, type ByColumn } from "../contract";
import { zeros, type Matrix } from "./matrix";

export interface Span {
  readonly start: number;
  readonly stop: number;
}

export class Encoding {
  readonly spans: readonly Span[];
  readonly size: number;

  constructor(readonly blocks: readonly Block[]) {
    let at = 0;
    this.spans = blocks.map((b) => ({ start: at, stop: (at += b.rows) }));
    this.size = at;
  }

  /** Which of the blocks belong to `columns`; null is the intercept. */
  places(columns: ReadonlySet<string | null>): number[] {
    return this.blocks.flatMap((b, i) => (columns.has(b.column) ? [i] : []));
  }

  /** Rows of z of the blocks at `places`. */
  rows(places: readonly number[]): number[] {
    return places.flatMap((i) => Array.from({ length: this.blocks[i]!.rows }, (_, r) => this.spans[i]!.start + r));
  }

  keep(places: readonly number[]): Encoding {
    return new Encoding(places.map((i) => this.blocks[i]!));
  }

  /** Block of each row. */
  get owners(): Int32Array {
    return Int32Array.from(this.blocks.flatMap((b, i) => Array.from({ length: b.rows }, () => i)));
  }
}

export type References = ByColumn;

/** The level that a reduced column is measured against: its first, unless another was chosen. */
export function referenceOf(block: Block, references: References): number {
  const chosen = block.column === null ? undefined : numberOf(references, block.column);
  return chosen !== undefined && chosen >= 0 && chosen < block.rows ? chosen : 0;
}

/** `intercept`, `column` or `column=level`; the reference level of a reduced column has no coefficient. */
export function originalNames(encoding: Encoding, references: References, intercept: boolean): string[] {
  return encoding.blocks.flatMap((b) => {
    if (b.column === null) return intercept ? ["intercept"] : [];
    const dropped = b.contrast === "first" ? referenceOf(b, references) : -1;
    return b.labels.flatMap((label, i) => (i === dropped ? [] : [label ? `${b.column}=${label}` : b.column!]));
  });
}

/** T with coef = T θ, for an encoding that begins with an intercept, "k p". */
export function originalScale(encoding: Encoding, references: References): Matrix {
  const p = encoding.size, out = zeros(originalNames(encoding, references, true).length, p), constant = out.data.subarray(0, p);
  let row = 0;
  const unit = (...entries: readonly (readonly [number, number])[]) => {
    row += p;
    for (const [at, value] of entries) out.data[row + at]! += value;
  };
  encoding.blocks.forEach((b, i) => {
    const { start, stop } = encoding.spans[i]!;
    if (b.column === null) constant[start]! += 1;
    else if (b.scalar) {
      unit([start, 1 / b.half]);
      constant[start]! -= b.centre / b.half;
    } else if (b.contrast === "none") for (let r = start; r < stop; r++) unit([r, 1]);
    else if (b.contrast === "first") {
      const reference = start + referenceOf(b, references);
      for (let r = start; r < stop; r++) if (r !== reference) unit([r, 1], [reference, -1]);
      constant[reference]! += 1;
      for (let r = start; r < stop; r++) constant[r]! -= 1 / b.rows;
    } else {
      for (let r = start; r < stop; r++) {
        unit([r, 1], ...Array.from({ length: b.rows }, (_, l): [number, number] => [start + l, -1 / b.rows]));
      }
    }
  });
  return out;
}

/** R "p q" and T "k p" of a regression through the origin of the original scale: θ = Rβ and coef = T θ. */
export function throughOrigin(encoding: Encoding, references: References): { R: Matrix; T: Matrix } {
  const p = encoding.size, columns: Float64Array[] = [], rows: Float64Array[] = [];
  const add = (into: Float64Array[], ...entries: [number, number][]) => {
    const row = new Float64Array(p);
    for (const [at, value] of entries) row[at]! += value;
    into.push(row);
  };
  encoding.blocks.forEach((b, i) => {
    const { start, stop } = encoding.spans[i]!;
    if (b.column === null) return;
    if (b.scalar) {
      add(columns, [start, 1], [0, b.centre / b.half]);
      add(rows, [start, 1 / b.half]);
    } else if (b.contrast === "none") {
      for (let r = start; r < stop; r++) {
        add(columns, [r, 1]);
        add(rows, [r, 1]);
      }
    } else {
      const reference = b.contrast === "first" ? start + referenceOf(b, references) : -1;
      for (let r = start; r < stop; r++) {
        if (r === reference) continue;
        add(columns, [r, 1], [0, 1 / b.rows]);
        add(rows, [r, 1], ...(reference < 0 ? [] : ([[reference, -1]] as [number, number][])));
      }
    }
  });
  const R = zeros(p, columns.length);
  columns.forEach((column, j) => column.forEach((value, i) => (R.data[i * columns.length + j] = value)));
  return { R, T: stacked(rows, p) };
}

function stacked(rows: readonly Float64Array[], cols: number): Matrix {
  const out = zeros(rows.length, cols);
  rows.forEach((row, i) => out.data.set(row, i * cols));
  return out;
}
