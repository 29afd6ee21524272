/** What a release says of β once its noise is taken into account (model/reading.py; derivation: docs/intervals.md). */

import { eigen, tridiagonal } from "./eigen";
import { folded, residual, type Equations } from "./equations";
import {
  backwardSolve, cholesky, dot, forwardSolve, forwardVector, timesTransposed, timesVector, transposed, transposedTimesVector, zeros,
  type Matrix,
} from "./matrix";
import type { BlockNoise } from "./noise";
import { GRID, LogSum } from "./solve";

const EDGE = 1;
const ROUNDS = 4;
const LIKELIHOOD_DROP = 2.71;
const FLAT = 10;

export interface Reading {
  /** E, "q s": the seen directions, g = E'b̃. */
  readonly sight: Matrix;
  readonly g: Float64Array;
  /** A', "q s". */
  readonly At: Matrix;
  readonly C: Matrix;
  /** The part of C that comes from not knowing β, "s s". */
  readonly own: Matrix;
  readonly eigenvalues: Float64Array;
  /** Variances of the prior, at its widest, "q". */
  readonly prior: Float64Array;
  readonly gain: Matrix;
  /** What a posterior variance is made of: V = prior − rows·rows', "q s". */
  readonly learned: Matrix;
  readonly mean: Float64Array;
  /** The most likely prior variance over the widest. */
  readonly likely: number;
}

export interface Estimates {
  readonly estimate: Float64Array;
  readonly weights: Matrix;
  readonly noise: Float64Array;
  /** The part of `noise` that comes from not knowing β. */
  readonly own: Float64Array;
  readonly prior: Float64Array;
  readonly variance: Float64Array;
}

export function reading(e: Equations, noise: BlockNoise): Reading {
  const q = e.b.length, p = e.G.rows, level = noise.level;
  const unit = folded(e, level, true).map((v) => 1 / Math.sqrt(v)), scaled = zeros(q, q), H = e.H.data;
  for (let i = 0; i < q; i++) {
    const own = unit[i]!;
    for (let j = 0, at = i * q; j < q; j++, at++) scaled.data[at] = H[at]! * own * unit[j]!;
  }
  const { values, vectors } = eigen(scaled);
  const size = values.reduce((a, v) => Math.max(a, Math.abs(v)), 0);
  const free = values.reduce((count, v) => count + (Math.abs(v) > 1e-9 * size ? 1 : 0), 0);
  const seen = Array.from(values.keys()).filter((i) => values[i]! > EDGE * Math.sqrt(free));
  const s = seen.length, eigenvalues = Float64Array.from(seen, (i) => values[i]!), columns = Int32Array.from(seen);
  const sight = zeros(q, s), At = zeros(q, s), U = vectors.data;
  for (let k = 0; k < q; k++) {
    const own = unit[k]!, inverse = 1 / own;
    for (let j = 0, at = k * s; j < s; j++, at++) {
      const u = U[k * q + columns[j]!]!;
      sight.data[at] = own * u;
      At.data[at] = eigenvalues[j]! * u * inverse;
    }
  }
  const g = transposedTimesVector(sight, e.b);
  const F = transposed(timesTransposedBasis(e, sight));
  const fixed = e.intercept ? 1 : 0, free_ = rowsFrom(At, fixed), AA = gram(free_);
  const constant = fixed ? At.data.slice(0, s) : null;

  const prior = (C: Matrix, drop: number): Float64Array => {
    const t = q > fixed ? varianceOfCoefficients(AA, constant, g, C, drop) : 1;
    return new Float64Array(q).fill(t).map((v, i) => (i < fixed ? FLAT : v));
  };
  let mean: Float64Array = new Float64Array(q), learned: Matrix | null = null, likely: Float64Array = new Float64Array(q);
  let C = zeros(s, s), own = zeros(s, s);
  for (let round = 0; round < ROUNDS; round++) {
    const t = centred(noise, residual(e, mean));
    const doubt = learned === null ? zeros(p, p) : unknown(e, noise, likely, learned);
    if (round === ROUNDS - 1) own = sandwich(F, noise.covarianceOfCentred(doubt));
    C = sandwich(F, noise.covarianceOfCentred(plusOuter(doubt, t)));
    likely = prior(C, 0);
    const S = cholesky(spread(AA, constant, likely, C));
    learned = forwardSolve(S, timesPrior(At, likely));
    mean = timesVector(learned, forwardVector(S, g.slice()));
  }
  const widest = prior(C, LIKELIHOOD_DROP), S = cholesky(spread(AA, constant, widest, C));
  learned = forwardSolve(S, timesPrior(At, widest));
  const gain = backwardSolve(S, { ...learned, data: learned.data.slice() });
  return { sight, g, At, C, own, eigenvalues, prior: widest, gain, learned, mean, likely: likely[q - 1]! / widest[q - 1]! };
}

/** c'β for each row of c by itself, the prior on it taken away again. */
export function read(r: Reading, c: Matrix): Estimates {
  const k = c.rows, q = c.cols, s = r.g.length, weights = sparseTimes(c, r.gain), known = sparseTimes(c, r.learned);
  for (let i = 0; i < k; i++) {
    let before = 0;
    for (let j = 0; j < q; j++) before += c.data[i * q + j]! ** 2 * r.prior[j]!;
    let learned = 0;
    for (let j = 0; j < s; j++) learned += known.data[i * s + j]! ** 2;
    const rho = Math.min((before - learned) / (before > 0 ? before : 1), 1 - 1e-12);
    for (let j = 0; j < s; j++) weights.data[i * s + j]! /= 1 - rho;
  }
  const explained = timesTransposed(weights, r.At), through = timesTransposed(weights, r.C), apart = timesTransposed(weights, r.own);
  const noise = new Float64Array(k), own = new Float64Array(k), prior = new Float64Array(k);
  for (let i = 0; i < k; i++) {
    for (let j = 0; j < s; j++) {
      noise[i]! += weights.data[i * s + j]! * through.data[i * s + j]!;
      own[i]! += weights.data[i * s + j]! * apart.data[i * s + j]!;
    }
    for (let j = 0; j < q; j++) prior[i]! += (c.data[i * q + j]! - explained.data[i * q + j]!) ** 2 * r.prior[j]!;
  }
  return { estimate: timesVector(weights, r.g), weights, noise, own, prior, variance: noise.map((v, i) => v + r.likely * prior[i]!) };
}

/** c a for a matrix c with few entries. */
export function sparseTimes(c: Matrix, a: Matrix): Matrix {
  const out = zeros(c.rows, a.cols), s = a.cols;
  for (let i = 0; i < c.rows; i++) {
    for (let j = 0; j < c.cols; j++) {
      const f = c.data[i * c.cols + j]!;
      if (f !== 0) for (let l = 0; l < s; l++) out.data[i * s + l]! += f * a.data[j * s + l]!;
    }
  }
  return out;
}

/** R E, "p s". */
function timesTransposedBasis(e: Equations, sight: Matrix): Matrix {
  const s = sight.cols, out = zeros(e.G.rows, s);
  if (!e.selects) return timesTransposed(e.basis, transposed(sight));
  e.features.forEach((row, i) => out.data.set(sight.data.subarray(i * s, (i + 1) * s), row * s));
  return out;
}

/** a + tt', in place. */
function plusOuter(a: Matrix, t: Float64Array): Matrix {
  const p = t.length, data = a.data;
  for (let i = 0; i < p; i++) {
    const f = t[i]!;
    for (let j = 0, at = i * p; j < p; j++, at++) data[at]! += f * t[j]!;
  }
  return a;
}

/** P t. */
function centred(noise: BlockNoise, t: Float64Array): Float64Array {
  const out = t.slice();
  noise.encoding.blocks.forEach((b, i) => {
    if (!b.table) return;
    const { start, stop } = noise.encoding.spans[i]!, mean = out.subarray(start, stop).reduce((sum, v) => sum + v, 0) / b.rows;
    for (let r = start; r < stop; r++) out[r]! -= mean;
  });
  return out;
}

/** P R V R' P, V = diag(prior) − learned·learned', "p p".
 *
 * Where R selects rows, seen directions add up to 0 over each one-hot block, so what is learned is centred as it is, and P
 * comes in through the prior alone, which has one value in each block.
 */
function unknown(e: Equations, noise: BlockNoise, prior: Float64Array, learned: Matrix): Matrix {
  const q = prior.length, p = e.G.rows, V = timesTransposed(learned, learned, true).data, out = zeros(p, p), M = out.data;
  if (!e.selects) {
    for (let i = 0; i < q; i++) for (let j = 0; j < q; j++) V[i * q + j] = (i === j ? prior[i]! : 0) - V[i * q + j]!;
    return noise.centre(timesTransposed(timesTransposed(e.basis, { rows: q, cols: q, data: V }), e.basis, true));
  }
  const place = Int32Array.from(e.features);
  for (let i = 0; i < q; i++) {
    const row = place[i]! * p;
    for (let j = 0, at = i * q; j < q; j++, at++) M[row + place[j]!] = -V[at]!;
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

/** F'MF for F given by its transpose, M symmetric. */
function sandwich(Ft: Matrix, M: Matrix): Matrix {
  return timesTransposed(timesTransposed(Ft, M), Ft, true);
}

/** AΠA' + C. */
function spread(AA: Matrix, constant: Float64Array | null, prior: Float64Array, C: Matrix): Matrix {
  const s = C.rows, out = zeros(s, s), t = prior[prior.length - 1]!;
  for (let i = 0; i < s; i++) {
    for (let j = 0; j < s; j++) {
      const first = constant ? prior[0]! * constant[i]! * constant[j]! : 0;
      out.data[i * s + j] = t * AA.data[i * s + j]! + first + C.data[i * s + j]!;
    }
  }
  return out;
}

function timesPrior(At: Matrix, prior: Float64Array): Matrix {
  const s = At.cols, out = zeros(At.rows, s);
  for (let k = 0; k < At.rows; k++) for (let j = 0; j < s; j++) out.data[k * s + j] = At.data[k * s + j]! * prior[k]!;
  return out;
}

function rowsFrom(a: Matrix, from: number): Matrix {
  return { rows: a.rows - from, cols: a.cols, data: a.data.subarray(from * a.cols) };
}

function gram(a: Matrix): Matrix {
  const t = transposed(a);
  return timesTransposed(t, t, true);
}

/** The largest τ² in g ~ N(constant · anything, τ²AA' + C) whose deviance is within `drop` of the least.
 *
 * With C = LL', K = L⁻¹AA'L⁻ᵀ and y = L⁻¹g, both freed of the constant, the deviance is log|τ²K + I| + y'(τ²K + I)⁻¹y; in the
 * tridiagonal form of K each τ² takes one pass over its diagonals.
 */
function varianceOfCoefficients(AA: Matrix, constant: Float64Array | null, g: Float64Array, C: Matrix, drop: number): number {
  const s = C.rows;
  if (s === 0) return 1;
  const L = cholesky(C);
  const half = forwardSolve(L, { ...AA, data: AA.data.slice() });
  const K = forwardSolve(L, transposed(half)), y = forwardVector(L, g.slice());
  if (constant) {
    const f = forwardVector(L, constant.slice()), norm = Math.sqrt(dot(f, f));
    for (let i = 0; i < s; i++) f[i]! /= norm;
    const Kf = timesVector(K, f), fKf = dot(f, Kf), fy = dot(f, y);
    for (let i = 0; i < s; i++) {
      for (let j = 0; j < s; j++) K.data[i * s + j]! -= f[i]! * Kf[j]! + Kf[i]! * f[j]! - fKf * f[i]! * f[j]!;
      y[i]! -= fy * f[i]!;
    }
  }
  const T = tridiagonal(K), turned = reflected(T.reflectors, T.beta, y);
  const deviance = GRID.map((t) => devianceAt(T.d, T.e, turned, t));
  const least = Math.min(...deviance);
  return GRID[deviance.findLastIndex((v) => v <= least + drop)]!;
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
