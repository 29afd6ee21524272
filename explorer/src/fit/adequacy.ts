/** Where a generalised linear model may be read off second moments (model/adequacy.py). */

import type { Block } from "../contract";
import type { Equations } from "./equations";

const TOLERATED = 1 / 3, ROOM = 2;

/** Mean of the response and its slope where the predictor is N(s, V). */
export type Response = (s: number, variance: number) => readonly [number, number];

export interface Predictor {
  readonly beta: Float64Array;
  readonly factor: number;
  readonly mean: number;
  readonly variance: number;
  readonly response: Response;
}

export const logisticResponse: Response = (s, variance) => {
  const kappa = Math.sqrt(1 + (Math.PI * variance) / 8), g = Math.tanh(s / (2 * kappa));
  return [g, (1 - g * g) / (2 * kappa)];
};

export function poissonResponse(half: number): Response {
  return (s, variance) => {
    const g = Math.exp(Math.min(s + variance / 2, 50)) / half;
    return [g, g];
  };
}

/** Which coefficients the approximation serves; the intercept only if it serves all. */
export function adequate(e: Equations, s: Predictor, stderr: Float64Array): boolean[] {
  const q = e.H.cols, n = e.total, out: boolean[] = [true];
  e.encoding.blocks.forEach((b, i) => {
    if (b.column === null) return;
    const { start, stop } = e.encoding.spans[i]!, mean = e.H.data.slice(start, stop).map((v) => v / n);
    if (b.table || (b.scalar && b.known)) {
      for (const moved of needed(s, b, s.beta.subarray(start, stop), mean)) out.push(moved <= TOLERATED * stderr[out.length]!);
      return;
    }
    for (let r = start; r < stop; r++) {
      const m = mean[r - start]!, spread = Math.sqrt(Math.max(e.H.data[r * q + r]! / n - m * m, 0));
      out.push(b.scalar && 1 - Math.abs(m) >= ROOM * spread);
    }
  });
  out[0] = out.every((v) => v);
  return out;
}

/** By how much each shown coefficient of a column of levels would have to move. */
function needed(s: Predictor, b: Block, beta: Float64Array, mean: Float64Array): number[] {
  if (!b.table) {
    const { off, slope } = missed(s, [-beta[0]!, beta[0]!], [(1 - mean[0]!) / 2, (1 + mean[0]!) / 2]);
    return [Math.abs(off[1]! - off[0]!) / (2 * b.half * Math.min(...slope))];
  }
  const { off, slope } = missed(s, Array.from(beta), Array.from(mean, (v) => v + 1 / b.rows));
  const against = b.contrast === "first" ? off[0]! : off.reduce((a, v) => a + v, 0) / off.length;
  return off.map((v, i) => Math.abs(v - against) / slope[i]!).slice(b.contrast === "first" ? 1 : 0);
}

/** The response's mean at each level less what least squares has there, and its slope. */
function missed(s: Predictor, beta: readonly number[], counted: readonly number[]): { readonly off: number[]; readonly slope: number[] } {
  const positive = counted.map((v) => Math.max(v, 0)), total = Math.max(positive.reduce((a, v) => a + v, 0), 1e-300);
  const average = (values: readonly number[]): number => values.reduce((a, v, i) => a + (v * positive[i]!) / total, 0);
  const centre = average(beta), own = beta.map((v) => v - centre);
  const rest = Math.max(s.variance - s.factor ** 2 * average(own.map((v) => v * v)), 0);
  const found = own.map((v) => s.response(s.mean + s.factor * v, rest)), mean = average(found.map(([g]) => g));
  return { off: found.map(([g], i) => g - mean - own[i]!), slope: found.map(([, slope]) => Math.max(slope, 1e-12)) };
}
