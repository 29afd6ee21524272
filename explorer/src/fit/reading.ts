/** What a release says of β once its noise is taken into account (model/reading.py; derivation: docs/intervals.md). */

import { eigen, tridiagonal } from "./eigen";
import { folded, residual, type Equations } from "./equations";
import { scratch } from "./kernel";
import {
  backwardSolve, cholesky, copied, dot, forms, forwardSolve, forwardVector, raw, timesTransposed, timesVector, transposed, zeros, type Matrix,
} from "./matrix";
import type { BlockNoise } from "./noise";
import { GRID, LogSum } from "./solve";

const EDGE = 1;
const ROUNDS = 4;
const LIKELIHOOD_DROP = 2.71;
export const WIDE = 100;
const FLAT = 10;

export interface Reading {
  /** E', "s q": the seen directions, g = E'b̃. */
  readonly sight: Matrix;
  readonly g: Float64Array;
  readonly C: Matrix;
  /** What an unshrunken estimate's own noise would add to C, "s s". */
  readonly own: Matrix;
  readonly eigenvalues: Float64Array;
  /** Variances of the prior, at its widest, "q". */
  readonly prior: Float64Array;
  readonly gain: Matrix;
  /** Minus the mean of the noise of g, to second order in the noise, "s". */
  readonly pull: Float64Array;
  /** What the release takes from the prior's covariance: V = prior − learned, "q q". */
  readonly learned: Matrix;
  readonly mean: Float64Array;
  /** The most likely prior variance over the widest. */
  readonly likely: number;
}

export interface Estimates {
  readonly estimate: Float64Array;
  /** What was added to w'g to make up for the mean of its noise. */
  readonly pull: Float64Array;
  readonly weights: Matrix;
  readonly noise: Float64Array;
  /** What their own noise would add to it. */
  readonly own: Float64Array;
  readonly prior: Float64Array;
  readonly variance: Float64Array;
}

export function reading(e: Equations, noise: BlockNoise): Reading {
  const q = e.b.length, p = e.G.rows, { sight, A, eigenvalues } = seen(e, noise), s = eigenvalues.length;
  const At = transposed(A), F = timesBasis(e, noise, sight), g = timesVector(sight, e.b), fixed = e.intercept ? 1 : 0;
  const free = rowsFrom(At, fixed), Af = transposed(free), AA = timesTransposed(Af, Af, true), constant = fixed ? At.data.slice(0, s) : null;
  const prior = (t: number) => new Float64Array(q).fill(t).fill(FLAT, 0, fixed);
  const C = raw(s, s), L = raw(s, s), known = raw(q, s), learned = raw(q, q), M = raw(p, p), half = raw(s, p);
  const posterior = (variances: Float64Array): void => {
    cholesky(spread(AA, constant, variances, C, L), L);
    forwardSolve(L, timesPrior(At, variances, known));
    timesTransposed(known, known, true, learned);
  };
  let mean: Float64Array = new Float64Array(q), t = residual(e, mean), likely = new Float64Array(q), deviance: readonly number[] = [];
  for (let round = 0; round < ROUNDS; round++) {
    t = noise.centred(residual(e, mean));
    if (round === 0) noise.sandwichOfOuter(F, t, C);
    else timesTransposed(timesTransposed(F, noise.covarianceOfCentred(plusOuter(unknown(e, noise, likely, learned, M), t)), false, half), F, true, C);
    deviance = q > fixed ? scratch(() => deviances(AA, constant, g, C)) : [];
    likely = prior(mostLikely(deviance, 0));
    posterior(likely);
    mean = timesVector(known, forwardVector(L, g.slice()));
  }
  const widest = prior(WIDE * mostLikely(deviance, LIKELIHOOD_DROP));
  posterior(widest);
  const gain = backwardSolve(L, known), ratio = likely[q - 1]! / widest[q - 1]!;
  const shaken = (V: Matrix): Matrix => noise.covarianceOfCentred(placed(e, noise, V, M));
  const V = timesTransposed(timesTransposed(gain, C), gain, true);
  const own = timesTransposed(timesTransposed(F, shaken(V), false, half), F, true);
  const pull = timesVector(F, timesVector(shaken(halved(timesTransposed(gain, transposed(sight)))), noise.centred(residual(e, mean))));
  return { sight, g, C, own, eigenvalues, prior: widest, gain, pull, learned, mean, likely: ratio };
}

/** (a + a')/2, in place. */
function halved(a: Matrix): Matrix {
  const n = a.rows, x = a.data;
  for (let i = 0; i < n; i++) for (let j = 0; j <= i; j++) x[i * n + j] = x[j * n + i] = (x[i * n + j]! + x[j * n + i]!) / 2;
  return a;
}

/** P R V R' P for a V of seen directions, which add up to 0 over each one-hot block where R selects rows, "p p". */
function placed(e: Equations, noise: BlockNoise, V: Matrix, out: Matrix): Matrix {
  if (!e.selects) return noise.centre(timesTransposed(timesTransposed(e.basis, V), e.basis, true, out));
  const q = V.rows, p = e.G.rows, place = Int32Array.from(e.features);
  out.data.fill(0);
  for (let i = 0, at = 0; i < q; i++) for (let j = 0, row = place[i]! * p; j < q; j++, at++) out.data[row + place[j]!] = V.data[at]!;
  return out;
}

/** E', A "s q" and Λ of the directions that are seen. */
function seen(e: Equations, noise: BlockNoise): { readonly sight: Matrix; readonly A: Matrix; readonly eigenvalues: Float64Array } {
  const q = e.b.length, unit = folded(e, noise.level, true).map((v) => 1 / Math.sqrt(v)), scaled = copied(e.H), H = scaled.data;
  for (let i = 0, at = 0; i < q; i++) for (let j = 0, own = unit[i]!; j < q; j++, at++) H[at]! *= own * unit[j]!;
  const { values, vectors } = eigen(scaled, (all) => {
    const size = all.reduce((a, v) => Math.max(a, Math.abs(v)), 0);
    const edge = EDGE * Math.sqrt(all.reduce((count, v) => count + (Math.abs(v) > 1e-9 * size ? 1 : 0), 0));
    return (v) => v > edge;
  });
  const s = values.length, U = vectors.data, A = raw(s, q);
  for (let j = 0, at = 0; j < s; j++) {
    const value = values[j]!;
    for (let k = 0; k < q; k++, at++) {
      A.data[at] = (value * U[at]!) / unit[k]!;
      U[at]! *= unit[k]!;
    }
  }
  return { sight: vectors, A, eigenvalues: values };
}

/** c'β for each row of c by itself, the prior on it taken away again. */
export function read(r: Reading, c: Matrix): Estimates {
  const k = c.rows, q = c.cols, s = r.g.length, weights = sparseTimes(c, r.gain), known = sparseTimes(c, r.learned), prior = new Float64Array(k);
  for (let i = 0; i < k; i++) {
    let before = 0, learned = 0;
    for (let j = 0, at = i * q; j < q; j++, at++) {
      const f = c.data[at]!;
      before += f * f * r.prior[j]!;
      learned += f * known.data[at]!;
    }
    const factor = 1 / (1 - Math.min((before - learned) / (before > 0 ? before : 1), 1 - 1e-12));
    for (let j = 0, at = i * s; j < s; j++, at++) weights.data[at]! *= factor;
    for (let j = 0, at = i * q; j < q; j++, at++) prior[i]! += (c.data[at]! - (factor * known.data[at]!) / r.prior[j]!) ** 2 * r.prior[j]!;
  }
  const noise = forms(weights, r.C), own = forms(weights, r.own);
  const pull = timesVector(weights, r.pull), estimate = timesVector(weights, r.g).map((v, i) => v + pull[i]!);
  return { estimate, pull, weights, noise, own, prior, variance: noise.map((v, i) => v + r.likely * prior[i]!) };
}

/** c a for a matrix c with few entries. */
export function sparseTimes(c: Matrix, a: Matrix): Matrix {
  const s = a.cols, q = c.cols, X = a.data, out = zeros(c.rows, s), Y = out.data;
  for (let i = 0, at = 0; i < c.rows; i++) {
    for (let j = 0; j < q; j++, at++) {
      const f = c.data[at]!;
      if (f !== 0) for (let l = 0, from = j * s, to = i * s; l < s; l++) Y[to++]! += f * X[from++]!;
    }
  }
  return out;
}

/** E'R'P, "s p". */
function timesBasis(e: Equations, noise: BlockNoise, sight: Matrix): Matrix {
  if (!e.selects) return noise.centredRows(timesTransposed(sight, e.basis));
  const s = sight.rows, q = sight.cols, p = e.G.rows, out = zeros(s, p), place = Int32Array.from(e.features);
  for (let i = 0, at = 0; i < s; i++) for (let j = 0, row = i * p; j < q; j++, at++) out.data[row + place[j]!] = sight.data[at]!;
  return out;
}

/** a + tt', in place. */
function plusOuter(a: Matrix, t: Float64Array): Matrix {
  const p = t.length, data = a.data;
  for (let i = 0, at = 0; i < p; i++) {
    const f = t[i]!;
    for (let j = 0; j < p; j++, at++) data[at]! += f * t[j]!;
  }
  return a;
}

/** P R V R' P, V = diag(prior) − learned, "p p".
 *
 * Where R selects rows, seen directions add up to 0 over each one-hot block, so what is learned is centred as it is, and P
 * comes in through the prior alone, which has one value in each block.
 */
function unknown(e: Equations, noise: BlockNoise, prior: Float64Array, learned: Matrix, out: Matrix): Matrix {
  const q = prior.length, p = e.G.rows, V = learned.data, M = out.data;
  if (!e.selects) {
    for (let i = 0; i < q; i++) for (let j = 0; j < q; j++) V[i * q + j] = (i === j ? prior[i]! : 0) - V[i * q + j]!;
    return noise.centre(timesTransposed(timesTransposed(e.basis, learned), e.basis, true, out));
  }
  const place = Int32Array.from(e.features);
  M.fill(0);
  for (let i = 0, at = 0; i < q; i++) {
    const row = place[i]! * p;
    for (let j = 0; j < q; j++, at++) M[row + place[j]!] = -V[at]!;
  }
  e.encoding.blocks.forEach((b, i) => {
    const { start, stop } = e.encoding.spans[i]!, share = b.table ? 1 / b.rows : 0;
    for (let r = start; r < stop; r++) {
      const row = place[r]! * p, t = prior[r]!;
      M[row + place[r]!]! += t;
      for (let c = start; c < stop; c++) M[row + place[c]!]! -= t * share;
    }
  });
  return out;
}

/** AΠA' + C. */
function spread(AA: Matrix, constant: Float64Array | null, prior: Float64Array, C: Matrix, out: Matrix): Matrix {
  const s = C.rows, X = out.data, Y = AA.data, Z = C.data, t = prior[prior.length - 1]!;
  for (let i = 0, at = 0; i < s; i++) {
    const first = constant ? prior[0]! * constant[i]! : 0;
    for (let j = 0; j < s; j++, at++) X[at] = t * Y[at]! + Z[at]! + (constant ? first * constant[j]! : 0);
  }
  return out;
}

/** ΠA'. */
function timesPrior(At: Matrix, prior: Float64Array, out: Matrix): Matrix {
  const s = At.cols, X = out.data, Y = At.data;
  for (let k = 0, at = 0; k < At.rows; k++) for (let j = 0, f = prior[k]!; j < s; j++, at++) X[at] = Y[at]! * f;
  return out;
}

function rowsFrom(a: Matrix, from: number): Matrix {
  return { rows: a.rows - from, cols: a.cols, data: a.data.subarray(from * a.cols) };
}

/** The largest τ² of the grid whose deviance is within `drop` of the least; 1 where there is nothing to tell it by. */
function mostLikely(deviance: readonly number[], drop: number): number {
  const least = Math.min(...deviance);
  return deviance.length ? GRID[deviance.findLastIndex((v) => v <= least + drop)]! : 1;
}

/** Deviances of g ~ N(constant · anything, τ²AA' + C), one for each τ² of the grid, up to a number that they share.
 *
 * With C = LL', K = L⁻¹AA'L⁻ᵀ and y = L⁻¹g, both freed of the constant, the deviance is log|τ²K + I| + y'(τ²K + I)⁻¹y; in the
 * tridiagonal form of K each τ² takes one pass over its diagonals.
 */
function deviances(AA: Matrix, constant: Float64Array | null, g: Float64Array, C: Matrix): readonly number[] {
  const s = C.rows;
  if (s === 0) return [];
  const L = cholesky(C), K = forwardSolve(L, transposed(forwardSolve(L, copied(AA))), true), y = forwardVector(L, g.slice());
  if (constant) {
    const f = forwardVector(L, constant.slice()), norm = Math.sqrt(dot(f, f));
    for (let i = 0; i < s; i++) f[i]! /= norm;
    const Kf = timesVector(K, f), fKf = dot(f, Kf), fy = dot(f, y), X = K.data;
    for (let i = 0; i < s; i++) Kf[i]! -= (fKf / 2) * f[i]!;
    for (let i = 0, at = 0; i < s; i++) {
      const fi = f[i]!, ki = Kf[i]!;
      for (let j = 0; j < s; j++, at++) X[at]! -= fi * Kf[j]! + ki * f[j]!;
      y[i]! -= fy * fi;
    }
  }
  const T = tridiagonal(K), turned = reflected(T.reflectors, T.beta, y);
  return GRID.map((t) => devianceAt(T.d, T.e, turned, t));
}

/** Q'y for the reflectors of Q, first to last. */
function reflected(reflectors: Matrix, beta: Float64Array, y: Float64Array): Float64Array {
  const n = y.length, out = y.slice();
  for (let k = 0; k < n - 2; k++) {
    if (beta[k] === 0) continue;
    const v = reflectors.data.subarray(k * n, (k + 1) * n);
    let sum = 0;
    for (let j = k + 1; j < n; j++) sum += v[j]! * out[j]!;
    sum *= beta[k]!;
    for (let j = k + 1; j < n; j++) out[j]! -= sum * v[j]!;
  }
  return out;
}

/** log|tT + I| + y'(tT + I)⁻¹y by T's LDL'. */
function devianceAt(d: Float64Array, e: Float64Array, y: Float64Array, t: number): number {
  const log = new LogSum();
  let pivot = Math.max(1 + t * d[0]!, 1e-100), x = y[0]!, sum = (x * x) / pivot;
  log.add(pivot);
  for (let i = 1; i < d.length; i++) {
    const l = (t * e[i - 1]!) / pivot;
    pivot = Math.max(1 + t * d[i]! - l * t * e[i - 1]!, 1e-100);
    x = y[i]! - l * x;
    log.add(pivot);
    sum += (x * x) / pivot;
  }
  return sum + log.value;
}
