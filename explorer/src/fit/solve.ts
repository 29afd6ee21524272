/** Noisy normal equations → β (model/solve.py): empirical Bayes where the noise is known, a public eigenvalue floor where not. */

import { eigen } from "./eigen";
import { folded, within, type Equations } from "./equations";
import { scratch } from "./kernel";
import { timesVector, transposedTimesVector, type Matrix } from "./matrix";

export const FLOOR_SHARE = 1e-3;
const ROUNDS = 3;

/** e^(−18) to e^6 in 97 steps: where a prior variance is looked for. */
export const GRID: readonly number[] = Array.from({ length: 97 }, (_, i) => Math.exp(-18 + i / 4));

/** β, shrunken; with `chance`, of a response that is ±1, what stands for the noise of estimated tables will do. */
export function solution(e: Equations, chance = false): Float64Array {
  return scratch(() => solved(e, chance));
}

function solved(e: Equations, chance: boolean): Float64Array {
  const variance = e.noise === null ? (chance ? e.doubt : null) : e.noise.entries();
  if (variance === null) return floored(e.H, e.b, e.total);
  const squares: Matrix = e.selects ? e.basis : { ...e.basis, data: e.basis.data.map((v) => v * v) };
  const varH = within(variance, squares, e.features, e.selects);
  const varB = folded(e, timesVector(variance, e.response.map((v) => v * v)), true);
  return empiricalBayes(e.H, e.b, varH, varB);
}

function floored(H: Matrix, b: Float64Array, total: number): Float64Array {
  const { values, vectors } = eigen(H), floor = FLOOR_SHARE * Math.max(total, 1);
  return transposedTimesVector(vectors, timesVector(vectors, b).map((v, i) => v / Math.max(values[i]!, floor)));
}

/** Directions that no record can take have no part in it: their eigenvalues are 0 but for rounding. */
function empiricalBayes(H: Matrix, b: Float64Array, varH: Matrix, varB: Float64Array): Float64Array {
  const q = H.rows, { values, vectors } = eigen(H, live), U = vectors.data, s = values.length;
  const level = timesVector(varH, new Float64Array(q).fill(1)).reduce((a, v) => Math.max(a, v), 0);
  const floor = Math.max(Math.sqrt(level) / 2, values.reduce((a, v) => Math.max(a, v), 0) * 1e-12), g = timesVector(vectors, b);
  const h = values.map((v) => Math.max(v, floor));
  let theta: Float64Array = new Float64Array(q);
  for (let round = 0; round < ROUNDS; round++) {
    const moved = timesVector(varH, theta.map((v) => v * v)), s2 = new Float64Array(s);
    for (let k = 0; k < q; k++) moved[k]! += varB[k]!;
    for (let i = 0, at = 0; i < s; i++) {
      let sum = 0;
      for (let k = 0; k < q; k++, at++) sum += U[at]! * U[at]! * moved[k]!;
      s2[i] = sum;
    }
    theta = transposedTimesVector(vectors, posterior(h, g, s2));
  }
  return theta;
}

function live(values: Float64Array): (value: number) => boolean {
  const size = values.reduce((a, v) => Math.max(a, Math.abs(v)), 0);
  return (v) => Math.abs(v) > 1e-9 * size;
}

/** Σ log x of positive numbers: the logarithm of their product, taken whenever that gets too large or too small. */
export class LogSum {
  private sum = 0;
  private product = 1;

  add(x: number): void {
    this.product *= x;
    if (this.product > 1e150 || this.product < 1e-150) {
      this.sum += Math.log(this.product);
      this.product = 1;
    }
  }

  get value(): number {
    return this.sum + Math.log(this.product);
  }
}

/** Posterior means under the prior variance of greatest marginal likelihood. */
function posterior(h: Float64Array, g: Float64Array, s2: Float64Array): Float64Array {
  let best = Infinity, t = GRID[0]!;
  for (const candidate of GRID) {
    const log = new LogSum();
    let deviance = 0;
    for (let i = 0; i < h.length; i++) {
      const variance = h[i]! * h[i]! * candidate + s2[i]!;
      log.add(variance);
      deviance += (g[i]! * g[i]!) / variance;
    }
    deviance += log.value;
    if (deviance < best) [best, t] = [deviance, candidate];
  }
  return h.map((v, i) => (v * t * g[i]!) / (v * v * t + s2[i]!));
}
