/** Intervals: how sure a coefficient is, sampling error and privacy error apart (model/interval.py). */

import { residual, type Equations } from "./equations";
import { zeros, type Matrix } from "./matrix";
import type { BlockNoise } from "./noise";
import { read, reading, WIDE, type Estimates, type Reading } from "./reading";

export const PRIOR_SHARE = 1 / 10;
export const OWN_SHARE = 1 / 6;
export const PULL_SHARE = 1 / 2;
export const FEW = 1 / 20;

export interface Intervals {
  /** Not shrunken; NaN where the noise leaves a coefficient unidentified. */
  readonly estimate: Float64Array;
  readonly sampling: Float64Array;
  /** Infinite where a coefficient is not identified. */
  readonly privacy: Float64Array;
}

export interface Inference {
  readonly reading: Reading;
  readonly found: Estimates;
  readonly explained: number;
  readonly rss: number;
  readonly residualVariance: number;
  readonly known: readonly boolean[];
  readonly intervals: Intervals;
}

export function inference(e: Equations, noise: BlockNoise): Inference {
  const r = reading(e, noise), found = read(e, r), s = r.g.length, k = e.readout.rows, q = e.readout.cols;
  let explained = 0;
  for (let j = 0; j < s; j++) explained += (r.g[j]! ** 2 - r.C.data[j * s + j]!) / r.eigenvalues[j]!;
  const t = noise.centred(residual(e, r.mean)), own = Math.sqrt(Math.max(noise.sandwichOfOuter({ rows: 1, cols: t.length, data: t }, t).data[0]!, 0));
  const rss = Math.max(e.yy - explained, own), residualVariance = rss / Math.max(e.total - e.rank, 1);
  const privacy = found.variance.map(Math.sqrt), sampling = new Float64Array(k);
  const passed = Array.from({ length: k }, (_, i) => {
    let norm = 0;
    for (let j = 0; j < q; j++) norm += e.readout.data[i * q + j]! ** 2;
    for (let j = 0; j < s; j++) sampling[i]! += found.weights.data[i * s + j]! ** 2 * r.eigenvalues[j]!;
    sampling[i] = Math.sqrt(residualVariance * sampling[i]!);
    const resting = found.prior[i]! <= WIDE * PRIOR_SHARE * found.noise[i]! && found.own[i]! <= OWN_SHARE * found.noise[i]!;
    return resting && Math.abs(found.pull[i]!) <= PULL_SHARE * privacy[i]! && privacy[i]! <= Math.sqrt(norm) && privacy[i]! > 0;
  });
  const enough = passed.filter(Boolean).length >= FEW * k, known = passed.map((v) => v && enough);
  return { reading: r, found, explained, rss, residualVariance, known, intervals: masked(found.estimate, sampling, privacy, known) };
}

/** NaN and infinity where a coefficient is not identified. */
export function masked(estimate: Float64Array, sampling: Float64Array, privacy: Float64Array, known: readonly boolean[]): Intervals {
  return {
    estimate: estimate.map((v, i) => (known[i] ? v : NaN)),
    sampling: sampling.map((v, i) => (known[i] ? v : Infinity)),
    privacy: privacy.map((v, i) => (known[i] ? v : Infinity)),
  };
}

export function outer(a: Float64Array, b: Float64Array): Matrix {
  const out = zeros(a.length, b.length);
  for (let i = 0; i < a.length; i++) for (let j = 0; j < b.length; j++) out.data[i * b.length + j] = a[i]! * b[j]!;
  return out;
}
