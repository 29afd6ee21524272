/** Generalised linear models from second moments: least squares, calibrated (model/calibration.py, glm.py, logistic.py, poisson.py). */

import { adequate, type Response } from "./adequacy";
import { eigen } from "./eigen";
import { fitted, folded, residual, theta, type Equations } from "./equations";
import { inference, masked, outer, type Inference, type Intervals } from "./inference";
import { copied, dot, timesTransposed, timesVector, transposed, zeros, type Matrix } from "./matrix";
import type { BlockNoise } from "./noise";
import { sparseTimes } from "./reading";

/** s = constant + factor · u, with derivatives by (ȳ, V). */
export interface Calibration {
  readonly factor: number;
  readonly constant: number;
  readonly byMean: readonly [number, number];
  readonly byVariance: readonly [number, number];
}

export type Rule = (mean: number, variance: number) => Calibration;

const LARGEST_R2 = 0.98, SMALLEST_SHARE = 1e-6, SEEN = 4;

/** The rule of two classes, none of which is taken to be rarer than what the release can tell: a standard error of its share. */
export function exactSplit(e: Equations): Rule {
  const smallest = Math.min(Math.max(meanError(e) / 2, SMALLEST_SHARE), 0.5);
  return (mean, variance) => split(mean, variance, smallest);
}

function split(mean: number, variance: number, smallest: number): Calibration {
  const m = Math.min(Math.max(mean, 2 * smallest - 1), 1 - 2 * smallest), spread = 1 - m * m;
  const left = spread - Math.min(Math.max(variance, 0), LARGEST_R2 * spread);
  return {
    factor: 2 / left,
    constant: Math.log((1 + m) / (1 - m)) - (2 * m) / spread,
    byMean: [(4 * m) / left ** 2, 2 / spread - (2 * (1 + m * m)) / spread ** 2],
    byVariance: [2 / left ** 2, 0],
  };
}

export function poissonRule(unit: number): Rule {
  return (m, variance) => {
    const v = Math.max(variance, 0);
    return {
      factor: 1 / m,
      constant: Math.log(unit * m) - 1 - v / (2 * m * m),
      byMean: [-1 / m ** 2, 1 / m + v / m ** 3],
      byVariance: [0, -1 / (2 * m * m)],
    };
  };
}

/** Q with tr QN the noise of the response's mean, "p p". */
function ofMean(e: Equations): Matrix {
  const p = e.response.length, out = zeros(p, p), X = out.data;
  for (let i = 0; i < p; i++) {
    const y = (e.response[i]! - (i === 0 ? e.mean : 0)) / 2 / e.total;
    X[i]! += y;
    X[i * p]! += y;
  }
  return out;
}

/** Standard error that the noise gives the response's mean; 0 where the noise is not known. */
export function meanError(e: Equations): number {
  if (e.noise === null) return 0;
  const Q = ofMean(e);
  return Math.sqrt(Math.max(dot(Q.data, e.noise.response(copied(Q)).data), 0));
}

/** Whether the rarer of two classes stands out from the noise; of one that does not, nothing is identified. */
export function classesSeen(e: Equations): boolean {
  return 1 - Math.abs(e.mean) > SEEN * meanError(e);
}

/** θ in the encoding's coordinates, β calibrated by its own variance V = β'Σβ. */
export function calibrated(e: Equations, beta: Float64Array, rule: Rule): Float64Array {
  const n = e.total, centre = dot(e.G.data.subarray(0, e.G.cols), fitted(e, beta)) / n;
  const found = rule(e.mean, Math.max(dot(beta, timesVector(e.H, beta)) / n - centre ** 2, 0));
  const out = theta(e, beta).map((v) => found.factor * v);
  out[0]! += found.constant;
  return out;
}

export type Information = (e: Equations, found: Calibration, explained: number, mean: Float64Array) => Matrix;

export interface GlmInference {
  readonly linear: Inference;
  readonly explained: number;
  readonly intervals: Intervals;
  /** Coefficients that are hidden because the model takes their columns for normal, which they are not. */
  readonly notNormal: readonly boolean[];
}

export function glmInference(e: Equations, noise: BlockNoise, rule: Rule, information: Information, response: Response, seen = true): GlmInference {
  const linear = inference(e, noise), { reading: r, found } = linear;
  const explained = Math.max(linear.explained / e.total - e.mean ** 2, 0), c = rule(e.mean, explained);
  const constants = Float64Array.from({ length: e.scale.rows }, (_, i) => e.scale.data[i * e.scale.cols]!);
  const estimate = found.estimate.map((v, i) => c.factor * v + c.constant * constants[i]!);
  const sampling = samplingErrors(e, r.sight, information(e, c, explained, r.mean));
  const privacy = privacyVariance(e, noise, linear, c, explained, constants).map((v) => Math.sqrt(Math.max(v, 0)));
  const predictor = { beta: r.mean, factor: c.factor, mean: c.constant + c.factor * e.mean, variance: c.factor ** 2 * explained, response };
  const served = adequate(e, predictor, sampling.map((v, i) => Math.hypot(v, privacy[i]!)));
  const known = linear.known.map((v, i) => seen && v && served[i]!), notNormal = linear.known.map((v, i) => seen && v && !served[i]!);
  return { linear, explained, notNormal, intervals: masked(estimate, sampling, privacy, known) };
}

/** Roots of the diagonal of the inverse information, in the seen directions. */
function samplingErrors(e: Equations, sight: Matrix, J: Matrix): Float64Array {
  const s = sight.rows, { values, vectors } = eigen(timesTransposed(timesTransposed(sight, J), sight, true));
  const largest = values.reduce((a, v) => Math.max(a, v), 1), rows = timesTransposed(sparseTimes(e.readout, transposed(sight)), vectors);
  return Float64Array.from({ length: e.readout.rows }, (_, i) => {
    let sum = 0;
    for (let j = 0; j < s; j++) sum += rows.data[i * s + j]! ** 2 / Math.max(values[j]!, 1e-9 * largest);
    return Math.sqrt(sum);
  });
}

/** Variance of each coefficient's noise: that of least squares, times k, and what ȳ and V feel of it. */
function privacyVariance(
  e: Equations, noise: BlockNoise, linear: Inference, c: Calibration, explained: number, constants: Float64Array,
): Float64Array {
  const { found, reading: r } = linear, p = e.response.length, n = e.total, t = residual(e, r.mean);
  const first = new Float64Array(p);
  first[0] = 1;
  const y = e.response.map((v, i) => v - e.mean * first[i]!);
  const byMean = ofMean(e), byVariance = zeros(p, p);
  for (let i = 0; i < p; i++) {
    for (let j = 0; j < p; j++) {
      byVariance.data[i * p + j] = (y[i]! * y[j]! - t[i]! * t[j]! - explained * first[i]! * first[j]!) / n;
    }
  }
  const moved = [byMean, byVariance].map((Q) => noise.response(copied(Q)));
  const mm = dot(byMean.data, moved[0]!.data), mv = dot(byMean.data, moved[1]!.data), vv = dot(byVariance.data, moved[1]!.data);
  const felt = moved.map((X) => timesVector(r.sight, folded(e, timesVector(X, t)))), s = r.sight.rows;
  return found.estimate.map((estimate, i) => {
    const a = found.weights.data.subarray(i * s, (i + 1) * s);
    const byM = estimate * c.byMean[0] + constants[i]! * c.byMean[1], byV = estimate * c.byVariance[0] + constants[i]! * c.byVariance[1];
    const cross = byM * dot(a, felt[0]!) + byV * dot(a, felt[1]!);
    return c.factor ** 2 * found.variance[i]! + 2 * c.factor * cross + byM * byM * mm + 2 * byM * byV * mv + byV * byV * vv;
  });
}

function expit(x: number): number {
  return x >= 0 ? 1 / (1 + Math.exp(-x)) : Math.exp(x) / (1 + Math.exp(x));
}

/** n E[σ'(s) xx'] with x Gaussian within classes, by Stein's identity. */
export function logisticInformation(e: Equations, found: Calibration, V: number, mean: Float64Array): Matrix {
  const n = e.total, m = e.mean, q = e.b.length, H = e.H.data;
  const shares = [(1 - m) / 2, (1 + m) / 2].map((p) => Math.min(Math.max(p, 1e-6), 1)) as [number, number];
  const means = [-1, 1].map((sign, c) => e.b.map((b, i) => (H[i]! + sign * b) / (2 * n * shares[c]!)));
  const W = zeros(q, q);
  for (let i = 0; i < q; i++) {
    for (let j = 0; j < q; j++) {
      W.data[i * q + j] = H[i * q + j]! / n - shares[0] * means[0]![i]! * means[0]![j]! - shares[1] * means[1]![i]! * means[1]![j]!;
    }
  }
  const Wt = timesVector(W, mean).map((v) => found.factor * v), r2 = Math.min(V / Math.max(1 - m * m, 1e-6), 1);
  const J = zeros(q, q), { nodes, weights } = hermite();
  [m - 2 * r2 * shares[1], m + 2 * r2 * shares[0]].forEach((centre, c) => {
    let a0 = 0, a1 = 0, a2 = 0;
    nodes.forEach((x, i) => {
      const z = expit(found.constant + found.factor * (centre + Math.sqrt(V * (1 - r2)) * x)), f = z * (1 - z);
      a0 += weights[i]! * f;
      a1 += weights[i]! * f * (1 - 2 * z);
      a2 += weights[i]! * f * (1 - 6 * f);
    });
    const u = means[c]!, p = shares[c]!;
    for (let i = 0; i < q; i++) {
      for (let j = 0; j < q; j++) {
        const uu = W.data[i * q + j]! + u[i]! * u[j]!, both = Wt[i]! * u[j]! + u[i]! * Wt[j]!;
        J.data[i * q + j]! += n * p * (a0 * uu + a1 * both + a2 * Wt[i]! * Wt[j]!);
      }
    }
  });
  return J;
}

let table: { nodes: Float64Array; weights: number[] } | null = null;

/** 48 nodes and weights of Gauss and Hermite for the standard normal: eigenvalues of the Jacobi matrix (Golub and Welsch). */
function hermite(): { nodes: Float64Array; weights: number[] } {
  if (table) return table;
  const n = 48, J = zeros(n, n);
  for (let i = 1; i < n; i++) J.data[i * n + i - 1] = J.data[(i - 1) * n + i] = Math.sqrt(i);
  const { values, vectors } = eigen(J);
  return (table = { nodes: values.slice(), weights: Array.from(values, (_, i) => vectors.data[i * n]! ** 2) });
}

/** φ = E Var(y|x) / ȳ, at least 0; for counts of a Poisson model 1. */
export function dispersion(e: Equations, half: number, explained: number): number {
  const variance = e.yy / e.total - e.mean ** 2;
  const left = variance - e.mean ** 2 * Math.expm1(Math.min(explained / e.mean ** 2, 30));
  return Math.max((half * left) / e.mean, 0);
}

/** n E[e^s xx'] / φ with x Gaussian. */
export function poissonInformation(half: number): Information {
  return (e, _found, V) => {
    const q = e.b.length, H = e.H.data, n = e.total, phi = Math.max(dispersion(e, half, V), 1e-3);
    const mu = e.b.map((_, i) => H[i]! / n), nu = e.b.map((b) => b / (n * e.mean)), J = outer(nu, nu);
    for (let i = 0; i < q; i++) {
      for (let j = 0; j < q; j++) {
        J.data[i * q + j] = ((n * half * e.mean) / phi) * (J.data[i * q + j]! + H[i * q + j]! / n - mu[i]! * mu[j]!);
      }
    }
    return J;
  };
}
