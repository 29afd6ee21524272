/** The normal equations of one regression, read out of a release's moments (model/equations.py). */

import { Encoding, originalNames, originalScale, throughOrigin, type References } from "./encoding";
import { dot, submatrix, timesTransposed, timesVector, transposed, transposedTimesVector, zeros, type Matrix } from "./matrix";
import type { BlockNoise } from "./noise";

/** Moments of a release, with their noise where it is known. */
export interface Moments {
  readonly matrix: Matrix;
  readonly encoding: Encoding;
  readonly noise: BlockNoise | null;
  /** Least σ of the measurements behind estimated tables; null where there are none. */
  readonly sigma: number | null;
}

export interface Equations {
  /** Z'Z of intercept, features and target, "p p". */
  readonly G: Matrix;
  readonly noise: BlockNoise | null;
  /** Variance of Z'Z's entries if every table had been measured by itself with σ; null where noise is known or there is none. */
  readonly doubt: Matrix | null;
  /** Intercept and features. */
  readonly encoding: Encoding;
  /** Rows of z that belong to `encoding`. */
  readonly features: readonly number[];
  /** R, "p q"; left empty where it `selects`, that is does nothing but choose rows. */
  readonly basis: Matrix;
  readonly selects: boolean;
  /** The block of `encoding` that each coordinate of β belongs to. */
  readonly owner: Int32Array;
  readonly response: Float64Array;
  /** Rows c with c'β a coefficient on the original scale, "k q". */
  readonly readout: Matrix;
  /** T, "k f": coefficients on the original scale from those of `encoding`. */
  readonly scale: Matrix;
  readonly names: readonly string[];
  readonly intercept: boolean;
  readonly H: Matrix;
  readonly b: Float64Array;
  readonly yy: number;
  /** n̂, at least 1. */
  readonly total: number;
  readonly mean: number;
  /** Number of free coefficients. */
  readonly rank: number;
}

export interface Request {
  readonly target: string;
  readonly features: readonly string[];
  readonly intercept: boolean;
  readonly references: References;
}

/** σ² |A_i|² |A_j|² between rows of different blocks; within a block all tables speak, and it is 0. */
function doubt(encoding: Encoding, sigma: number): Matrix {
  const p = encoding.size, out = zeros(p, p);
  const size = encoding.blocks.flatMap((b) => (b.z === null ? [1] : b.z.map((row) => row.reduce((sum, v) => sum + v * v, 0))));
  const own = encoding.blocks.flatMap((b, i) => Array<number>(b.rows).fill(i));
  for (let i = 0; i < p; i++) for (let j = 0; j < p; j++) if (own[i] !== own[j]) out.data[i * p + j] = sigma * sigma * size[i]! * size[j]!;
  return out;
}

/** The regression of `response` = coefficients of the target's rows and a constant. */
export function equations(moments: Moments, request: Request, rows: readonly number[], constant: number): Equations {
  const all = moments.encoding, chosen = new Set<string | null>([null, ...request.features, request.target]);
  const places = all.places(chosen), kept = all.keep(places), index = all.rows(places);
  const G = submatrix(moments.matrix, index, index), noise = moments.noise?.keep(places) ?? null;
  const own = kept.blocks.flatMap((b, i) => (b.column === request.target ? [] : [i]));
  const encoding = kept.keep(own), features = kept.rows(own), target = kept.spans[kept.blocks.findIndex((b) => b.column === request.target)]!;
  const response = new Float64Array(kept.size);
  rows.forEach((value, i) => (response[target.start + i] = value));
  response[0] = constant;
  const through = request.intercept ? null : throughOrigin(encoding, request.references);
  const T = through?.T ?? originalScale(encoding, request.references), basis = through === null ? zeros(0, 0) : placed(through.R, features, kept.size);
  const Gr = timesVector(G, response), total = Math.max(G.data[0]!, 1);
  return {
    G, noise, owner: owners(encoding, through?.R ?? null), doubt: noise === null && moments.sigma !== null ? doubt(kept, moments.sigma) : null, encoding, features, basis, selects: through === null, response, scale: T,
    readout: through === null ? T : timesTransposed(T, transposed(through.R)),
    names: originalNames(encoding, request.references, request.intercept),
    intercept: request.intercept,
    H: within(G, basis, features, through === null),
    b: through === null ? Float64Array.from(features, (row) => Gr[row]!) : transposedTimesVector(basis, Gr),
    yy: dot(response, Gr),
    total,
    mean: Gr[0]! / total,
    rank: encoding.blocks.reduce((sum, b) => sum + rankOf(b, request.intercept), 0),
  };
}

/** R's columns by the block of their largest entry, its intercept's rows aside; without R, rows of `encoding` themselves. */
function owners(encoding: Encoding, R: Matrix | null): Int32Array {
  const block = encoding.blocks.flatMap((b, i) => Array<number>(b.rows).fill(i));
  if (R === null) return Int32Array.from(block);
  return Int32Array.from({ length: R.cols }, (_, k) => {
    const size = block.map((own, row) => (encoding.blocks[own]!.column === null ? 0 : Math.abs(R.data[row * R.cols + k]!)));
    return block[size.indexOf(Math.max(...size))]!;
  });
}

function rankOf(block: Encoding["blocks"][number], intercept: boolean): number {
  if (block.column === null) return intercept ? 1 : 0;
  return block.contrast === "none" || (block.contrast === "mean" && !intercept) ? block.rows : Math.max(block.rows - 1, 1);
}

/** R'GR. */
export function within(G: Matrix, R: Matrix, features: readonly number[], selects: boolean): Matrix {
  if (selects) return submatrix(G, features, features);
  const Rt = transposed(R);
  return timesTransposed(timesTransposed(Rt, G), Rt, true);
}

/** Rβ, "p". */
export function fitted(e: Equations, beta: Float64Array): Float64Array {
  if (!e.selects) return timesVector(e.basis, beta);
  const out = new Float64Array(e.response.length);
  e.features.forEach((row, i) => (out[row] = beta[i]!));
  return out;
}

/** R'x, or (R∘R)'x, "q". */
export function folded(e: Equations, x: Float64Array, squared = false): Float64Array {
  if (e.selects) return Float64Array.from(e.features, (row) => x[row]!);
  return transposedTimesVector(squared ? { ...e.basis, data: e.basis.data.map((v) => v * v) } : e.basis, x);
}

/** θ of the encoding that predicts r'z. */
export function theta(e: Equations, beta: Float64Array): Float64Array {
  const full = fitted(e, beta);
  return Float64Array.from(e.features, (row) => full[row]!);
}

/** t = r − Rβ, "p". */
export function residual(e: Equations, beta: Float64Array): Float64Array {
  const full = fitted(e, beta);
  return e.response.map((value, i) => value - full[i]!);
}

/** The rows of R at `places` of p, zeros elsewhere. */
function placed(R: Matrix, places: readonly number[], p: number): Matrix {
  const out = zeros(p, R.cols);
  places.forEach((row, i) => out.data.set(R.data.subarray(i * R.cols, (i + 1) * R.cols), row * R.cols));
  return out;
}
