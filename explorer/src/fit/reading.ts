/** What a release says of β once its noise is taken into account (model/reading.py; derivation: docs/intervals.md). */

import { eigen, tridiagonal } from "./eigen";
import { folded, residual, type Equations } from "./equations";
import { compiled, scratch } from "./kernel";
import {
  backwardSolve, cholesky, combined, copied, dot, forms, forwardSolve, forwardVector, plusOuter, raw, timesTransposed, timesVector,
  submatrix, transposed, zeros, type Matrix,
} from "./matrix";
import type { BlockNoise } from "./noise";
import { GRID, LogSum } from "./solve";

const EDGE = 1;
const ROUNDS = 3;
const LIKELIHOOD_DROP = 2.71;
export const WIDE = 100;
const FLAT = 10;
const STEPS = 4;
const LEAST = 1e-9;

export interface Reading {
  /** E', "s q": the seen directions, g = E'b̃. */
  readonly sight: Matrix;
  readonly g: Float64Array;
  /** A', "q s": g = Aβ + noise with covariance C. */
  readonly At: Matrix;
  readonly C: Matrix;
  /** β's way from the noise, gain·E'R'P, "q p", and what an unshrunken estimate's own noise would add to that, "p p". */
  readonly influence: Matrix;
  readonly own: Matrix;
  readonly eigenvalues: Float64Array;
  /** Variances of the prior, at its widest, "q". */
  readonly prior: Float64Array;
  readonly gain: Matrix;
  /** Minus the mean of the noise of g, to second order in the noise, "s". */
  readonly pull: Float64Array;
  /** E[N Q N] for the influence Q = (PRJ + J'R'P)/2 of the estimate on its own noise, "p p". */
  readonly moved: Matrix;
  /** The gain under the most likely prior, which pull follows, "q s". */
  readonly shrunken: Matrix;
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
  const solved = (variances: Float64Array): void => {
    const t = variances[q - 1]!;
    combined(AA, t, C, 1, L);
    if (fixed) plusOuter(L, constant!.map((v) => FLAT * v), constant!);
    cholesky(L, L);
    combined(At, t, At, 0, known);
    for (let j = 0; j < fixed * s; j++) known.data[j] = FLAT * At.data[j]!;
    forwardSolve(L, known);
  };
  let mean: Float64Array = new Float64Array(q), t = residual(e, mean), likely = new Float64Array(q), deviance: readonly number[] = [];
  for (let round = 0; round < ROUNDS; round++) {
    t = noise.centred(residual(e, mean));
    if (round === 0) noise.sandwichOfOuter(F, t, C);
    else {
      timesTransposed(known, known, true, learned);
      timesTransposed(timesTransposed(F, noise.covarianceOfCentred(plusOuter(unknown(e, noise, likely, learned, M), t)), false, half), F, true, C);
    }
    deviance = q > fixed ? scratch(() => deviances(AA, constant, g, C)) : [];
    likely = prior(mostLikely(deviance, 0));
    solved(likely);
    mean = timesVector(known, forwardVector(L, g.slice()));
  }
  const widest = prior(WIDE * mostLikely(deviance, LIKELIHOOD_DROP)), shrunken = backwardSolve(L, copied(known));
  solved(widest);
  timesTransposed(known, known, true, learned);
  const gain = backwardSolve(L, known), ratio = likely[q - 1]! / widest[q - 1]!;
  const influence = timesTransposed(gain, transposed(F)), moved = noise.covarianceOfCentred(symmetric(e, noise, influence, raw(p, p)));
  const pull = timesVector(F, timesVector(moved, noise.centred(residual(e, mean))));
  const V = timesTransposed(timesTransposed(gain, C), gain, true), own = noise.covarianceOfCentred(placed(e, noise, V, M));
  return { sight, g, At, C, influence, own, eigenvalues, prior: widest, gain, pull, moved, shrunken, learned, mean, likely: ratio };
}

/** (P R J + J' R' P)/2 for J "q p", "p p". */
function symmetric(e: Equations, noise: BlockNoise, J: Matrix, out: Matrix): Matrix {
  const p = J.cols, x = out.data;
  if (e.selects) {
    x.fill(0);
    e.features.forEach((row, i) => x.set(J.data.subarray(i * p, (i + 1) * p), row * p));
  } else timesTransposed(e.basis, transposed(J), false, out);
  for (let i = 0; i < p; i++) for (let j = 0; j <= i; j++) x[i * p + j] = x[j * p + i] = (x[i * p + j]! + x[j * p + i]!) / 2;
  return e.selects ? out : noise.centre(out);
}

/** P R V R' P for a V of seen directions, which add up to 0 over each one-hot block where R selects rows, "p p". */
function placed(e: Equations, noise: BlockNoise, V: Matrix, out: Matrix): Matrix {
  if (!e.selects) return noise.centre(timesTransposed(timesTransposed(e.basis, V), e.basis, true, out));
  const q = V.rows, p = e.G.rows, gap = e.features.findIndex((row, i) => row !== i), from = gap < 0 ? q : gap, X = V.data, Y = out.data;
  Y.fill(0);
  e.features.forEach((row, i) => {
    Y.set(X.subarray(i * q, i * q + from), row * p);
    Y.set(X.subarray(i * q + from, (i + 1) * q), row * p + p - q + from);
  });
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

/** The mean of β given the release, under a prior variance for each column that the release itself tells (MacKay's rule). */
export function shrunken(e: Equations, r: Reading): Float64Array {
  const q = r.At.rows, s = r.At.cols, fixed = e.intercept ? 1 : 0, L = raw(s, s), A = transposed(r.At), X = raw(s, q), known = raw(q, s);
  const t = new Float64Array(q).fill(r.likely * r.prior[q - 1]!).fill(FLAT, 0, fixed), columns = e.encoding.blocks.length;
  for (let step = 0; ; step++) {
    const root = t.map(Math.sqrt);
    for (let i = 0, at = 0; i < s; i++) for (let k = 0; k < q; k++, at++) X.data[at] = A.data[at]! * root[k]!;
    timesTransposed(X, X, true, L);
    cholesky(combined(L, 1, r.C, 1, L), L);
    for (let k = 0, at = 0; k < q; k++) for (let i = 0; i < s; i++, at++) known.data[at] = t[k]! * r.At.data[at]!;
    forwardSolve(L, known);
    const mean = timesVector(known, forwardVector(L, r.g.slice()));
    if (step === STEPS) return mean;
    const shown = new Float64Array(columns), told = new Float64Array(columns);
    for (let k = 0, at = 0; k < q; k++) {
      const own = e.owner[k]!;
      let sum = 0;
      for (let i = 0; i < s; i++, at++) sum += known.data[at]! * known.data[at]!;
      shown[own]! += mean[k]! * mean[k]!;
      told[own]! += sum / t[k]!;
    }
    for (let k = fixed; k < q; k++) t[k] = Math.max(shown[e.owner[k]!]! / Math.max(told[e.owner[k]!]!, 1e-300), LEAST);
  }
}

/** c'β for each row of c by itself, the prior on it taken away again. */
export function read(e: Equations, r: Reading): Estimates {
  const c = e.readout, k = c.rows, q = c.cols, s = r.g.length, weights = sparseTimes(c, r.gain), known = sparseTimes(c, r.learned), prior = new Float64Array(k);
  const influence = sparseTimes(c, r.influence), own = forms(influence, r.own), p = influence.cols, X = c.data, Y = known.data, W = weights.data, inverse = r.prior.map((v) => 1 / v);
  for (let i = 0; i < k; i++) {
    let before = 0, learned = 0, rest = 0;
    for (let j = 0, at = i * q; j < q; j++, at++) {
      const f = X[at]!;
      before += f * f * r.prior[j]!;
      learned += f * Y[at]!;
    }
    const factor = 1 / (1 - Math.min((before - learned) / (before > 0 ? before : 1), 1 - 1e-12));
    for (let j = 0, at = i * s; j < s; j++, at++) W[at]! *= factor;
    for (let j = 0, at = i * p; j < p; j++, at++) influence.data[at]! *= factor;
    for (let j = 0, at = i * q; j < q; j++, at++) rest += (X[at]! - factor * Y[at]! * inverse[j]!) ** 2 * r.prior[j]!;
    prior[i] = rest;
    own[i]! *= factor * factor;
  }
  const pull = timesVector(weights, r.pull), estimate = timesVector(weights, r.g).map((v, i) => v + pull[i]!);
  const freed = combined(followed(e, r, influence), -1, weights, 1, weights), noise = forms(freed, r.C);
  return {
    estimate, pull, weights: freed, noise, own, prior,
    variance: Float64Array.from(noise, (v, i) => v + r.likely * prior[i]!),
  };
}

/** What pull = F·moved·(r − Rβ), with β = shrunken g, takes of g from estimates of this influence, "k s". */
function followed(e: Equations, r: Reading, influence: Matrix): Matrix {
  const rows = Array.from({ length: r.moved.rows }, (_, i) => i);
  const onto = e.selects ? submatrix(r.moved, rows, e.features) : timesTransposed(r.moved, transposed(e.basis));
  return timesTransposed(influence, timesTransposed(transposed(r.shrunken), onto));
}

/** c a for a matrix c with few entries. */
export function sparseTimes(c: Matrix, a: Matrix): Matrix {
  const s = a.cols, q = c.cols, out = zeros(c.rows, s), X = a.data, Y = out.data, fast = compiled(X, Y);
  for (let i = 0, at = 0; i < c.rows; i++) {
    for (let j = 0; j < q; j++, at++) {
      const f = c.data[at]!;
      if (f === 0) continue;
      if (fast !== null) fast.plusTimes(Y.byteOffset + 8 * i * s, f, X.byteOffset + 8 * j * s, s);
      else for (let l = 0; l < s; l++) Y[i * s + l]! += f * X[j * s + l]!;
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

/** P R V R' P, V = diag(prior) − learned, "p p".
 *
 * Where R selects rows, seen directions add up to 0 over each one-hot block, so what is learned is centred as it is, and P
 * comes in through the prior alone, which has one value in each block.
 */
function unknown(e: Equations, noise: BlockNoise, prior: Float64Array, learned: Matrix, out: Matrix): Matrix {
  const q = prior.length, p = e.G.rows, V = combined(learned, -1, learned, 0, learned), M = out.data;
  if (!e.selects) {
    for (let i = 0; i < q; i++) V.data[i * q + i]! += prior[i]!;
    return placed(e, noise, V, out);
  }
  placed(e, noise, V, out);
  e.encoding.blocks.forEach((b, i) => {
    const { start, stop } = e.encoding.spans[i]!, share = b.table ? 1 / b.rows : 0, first = e.features[start]!, t = prior[start]!;
    for (let r = 0; r < stop - start; r++) {
      const row = (first + r) * p + first;
      M[row + r]! += t;
      for (let c = 0; c < stop - start; c++) M[row + c]! -= t * share;
    }
  });
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
    const Kf = timesVector(K, f), fKf = dot(f, Kf), fy = dot(f, y);
    for (let i = 0; i < s; i++) {
      Kf[i] = (fKf / 2) * f[i]! - Kf[i]!;
      y[i]! -= fy * f[i]!;
    }
    plusOuter(plusOuter(K, f, Kf), Kf, f);
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
