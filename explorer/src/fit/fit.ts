/** A release in the page, and the regressions it answers: the same algorithms as Python's `Release.linear`, `.logistic`, `.poisson`. */

import { numberOf, symmetric, type Block, type ByColumn, type Column, type Contract } from "../contract";
import { Encoding } from "./encoding";
import { equations, theta as thetaOf, type Equations, type Moments, type Request } from "./equations";
import { logisticResponse, poissonResponse } from "./adequacy";
import { calibrated, classesSeen, dispersion, exactSplit, glmInference, logisticInformation, poissonInformation, poissonRule } from "./glm";
import { inference, type Intervals } from "./inference";
import { inKernel } from "./kernel";
import { dot, timesVector, zeros } from "./matrix";
import { BlockNoise } from "./noise";
import { ndtr, ndtri } from "./normal";
import { shrunken } from "./reading";
import { solution } from "./solve";

export type Model = "linear" | "logistic" | "poisson";

export interface Ask extends Request {
  readonly model: Model;
  /** Which level of a target with several is explained, against the rest. */
  readonly level: number;
  /** Times its own variance, the noise that the release would have had; 1 unless asked what if. */
  readonly noiseFactor: number;
}

export interface Coefficient {
  readonly name: string;
  /** Column of the release; null for the intercept. */
  readonly column: string | null;
  /** Shrunken: predicts best. */
  readonly coef: number;
  /** Not shrunken, with its standard errors; null where the noise hides it. */
  readonly estimate: number | null;
  readonly sampling: number | null;
  readonly privacy: number | null;
  readonly stderr: number | null;
  /** Hidden not by the noise but because the model takes its column for normal, which it is not. */
  readonly notNormal: boolean;
}

export interface Fit {
  readonly ask: Ask;
  readonly coefficients: readonly Coefficient[];
  readonly covered: boolean;
  readonly facts: readonly (readonly [string, number])[];
  /** Of the encoding's rows, for predictions. */
  readonly theta: Float64Array;
  readonly encoding: Encoding;
  readonly block: Block;
}

/** A refusal in one sentence. */
export class FitError extends Error {}

export function momentsOf(contract: Contract): Moments | null {
  if (contract.moments === null) return null;
  const encoding = new Encoding(contract.blocks), p = encoding.size, K = contract.blocks.length;
  let noise: BlockNoise | null = null;
  if (contract.noise !== null) {
    const variance = zeros(K, K);
    contract.noise.forEach((row, i) => variance.data.set(row, i * K));
    noise = new BlockNoise(variance, encoding);
  }
  return { matrix: { rows: p, cols: p, data: symmetric(contract.moments, p) }, encoding, noise, sigma: contract.sigma };
}

/** Models that can explain a column. */
export function modelsFor(block: Block | undefined, column: Column): Model[] {
  if (!block) return [];
  const out: Model[] = [];
  if (block.scalar) out.push("linear");
  if (column.kind !== "numeric" && (block.table || block.known)) out.push("logistic");
  if (block.scalar && block.centre - block.half >= -1e-9 * block.half && !block.known) out.push("poisson");
  return out;
}

/** Matrices as large as Z'Z that a fit has at once, at most. */
const ROOM = 40;

export function fit(moments: Moments, ask: Ask): Fit {
  const block = moments.encoding.blocks.find((b) => b.column === ask.target);
  if (!block) throw new FitError(`${ask.target} is not a column of the release.`);
  if (!ask.features.length && !ask.intercept) throw new FitError("Choose at least one feature where there is no intercept.");
  const scaled = ask.noiseFactor === 1 || !moments.noise ? moments : { ...moments, noise: moments.noise.times(ask.noiseFactor) };
  const solve = ask.model === "linear" ? linear : ask.model === "logistic" ? logistic : poisson;
  return inKernel(ROOM * (moments.encoding.size + 8) ** 2, () => solve(scaled, ask, block));
}

function linear(moments: Moments, ask: Ask, block: Block): Fit {
  const e = equations(moments, ask, [1], ask.intercept ? 0 : block.centre / block.half);
  const found = e.noise === null ? null : inference(e, e.noise), theta = thetaOf(e, found === null ? solution(e) : shrunken(e, found.reading));
  e.features.forEach((row, i) => (theta[i]! -= e.response[row]!));
  const coef = timesVector(e.scale, theta).map((v, i) => block.half * v + shift(e, i, block.centre)), tss = e.yy - (e.intercept ? e.total * e.mean ** 2 : 0);
  const rss = found ? found.rss : Math.max(dot(tail(e, theta), timesVector(e.G, tail(e, theta))), 0);
  const estimate = found?.intervals.estimate.map((v, i) => block.half * v + shift(e, i, block.centre));
  return {
    ask, theta, encoding: e.encoding, block, covered: found !== null,
    coefficients: rows(e, coef, found && { ...found.intervals, estimate: estimate! }, Math.abs(block.half)),
    facts: [
      ["Records (noisy)", e.total],
      ["R²", tss > 0 ? Math.min(Math.max(1 - rss / tss, 0), 1) : 0],
      ["Residual variance", (block.half ** 2 * rss) / Math.max(e.total - e.rank, 1)],
    ],
  };
}

/** t with t'Gt the residual sum of squares of θ. */
function tail(e: Equations, theta: Float64Array): Float64Array {
  const t = e.response.slice();
  e.features.forEach((row, i) => (t[row] = -theta[i]!));
  return t;
}

function shift(e: Equations, i: number, constant: number): number {
  return e.intercept && i === 0 ? constant : 0;
}

function logistic(moments: Moments, ask: Ask, block: Block): Fit {
  const m = block.rows;
  if (block.scalar && !block.known) throw new FitError(`${ask.target} is a number, not a class.`);
  const last = block.scalar ? Math.sign(block.z![0]![block.z![0]!.length - 1]!) : 1;
  const level = m === 2 && block.table ? 1 : ask.level;
  const response = block.scalar ? [last] : Array.from({ length: m }, (_, i) => (i === level ? 2 : 0));
  const e = equations(moments, { ...ask, intercept: true }, response, block.scalar ? 0 : 2 / m - 1);
  const rule = exactSplit(e), theta = calibrated(e, solution(e, true), rule), coef = timesVector(e.scale, theta);
  const found = e.noise === null ? null : glmInference(e, e.noise, rule, logisticInformation, logisticResponse, classesSeen(e));
  return {
    ask: { ...ask, intercept: true }, theta, encoding: e.encoding, block, covered: found !== null,
    coefficients: rows(e, coef, found?.intervals, 1, found?.notNormal),
    facts: [["Records (noisy)", e.total], ["Share of positives", Math.min(Math.max((1 + e.mean) / 2, 0), 1)]],
  };
}

function poisson(moments: Moments, ask: Ask, block: Block): Fit {
  const e = equations(moments, { ...ask, intercept: true }, [1], block.centre / block.half);
  if (e.mean <= 0) throw new FitError(`The noise hides the mean of ${ask.target}; a Poisson fit needs a positive one.`);
  const rule = poissonRule(block.half), theta = calibrated(e, solution(e), rule), coef = timesVector(e.scale, theta);
  const found = e.noise === null ? null : glmInference(e, e.noise, rule, poissonInformation(block.half), poissonResponse(block.half));
  const facts: [string, number][] = [["Records (noisy)", e.total], ["Mean of target", block.half * e.mean]];
  if (found) facts.push(["Dispersion", dispersion(e, block.half, found.explained)]);
  return {
    ask: { ...ask, intercept: true }, theta, encoding: e.encoding, block, covered: found !== null, facts,
    coefficients: rows(e, coef, found?.intervals, 1, found?.notNormal),
  };
}

function rows(
  e: Equations, coef: Float64Array, found: Intervals | null | undefined, unit: number, notNormal: readonly boolean[] = [],
): Coefficient[] {
  const owners = e.encoding.blocks.flatMap((b) => {
    if (b.column === null) return e.intercept ? [null] : [];
    return Array.from({ length: b.contrast === "first" ? b.rows - 1 : b.rows }, () => b.column);
  });
  return e.names.map((name, i) => {
    const seen = found && Number.isFinite(found.privacy[i]!) ? found : null;
    const s = seen && unit * seen.sampling[i]!, p = seen && unit * seen.privacy[i]!;
    return {
      name, column: owners[i] ?? null, coef: coef[i]!, estimate: seen && seen.estimate[i]!, sampling: s, privacy: p,
      stderr: seen && Math.hypot(s!, p!), notNormal: notNormal[i] ?? false,
    };
  });
}

/** Ends of an interval for the population's coefficient, or of its privacy part alone. */
export function limits(c: Coefficient, level: number, privacyOnly = false): readonly [number, number] | null {
  const error = privacyOnly ? c.privacy : c.stderr;
  if (c.estimate === null || error === null) return null;
  const half = ndtri((1 + level) / 2) * error;
  return [c.estimate - half, c.estimate + half];
}

/** z and P > |z|. */
export function significance(c: Coefficient): { readonly z: number; readonly p: number } | null {
  if (c.estimate === null || c.stderr === null) return null;
  const z = c.estimate / (c.stderr > 0 ? c.stderr : 1);
  return { z, p: 2 * ndtr(-Math.abs(z)) };
}

/** A record somebody made up: a number, or the index of a level, per column. */
export type Person = ByColumn;

/** The expected value (linear, Poisson) or the chance of the level explained (logistic). */
export function predicted(f: Fit, columns: ReadonlyMap<string, Column>, person: Person): number {
  let s = 0;
  f.encoding.blocks.forEach((b, i) => {
    const at = f.encoding.spans[i]!.start;
    encoded(b, b.column === null ? undefined : columns.get(b.column), person).forEach((z, r) => (s += z * f.theta[at + r]!));
  });
  if (f.ask.model === "linear") return f.block.centre + f.block.half * s;
  if (f.ask.model === "logistic") return s >= 0 ? 1 / (1 + Math.exp(-s)) : Math.exp(s) / (1 + Math.exp(s));
  const low = f.block.centre - f.block.half, high = f.block.centre + f.block.half;
  return Math.min(Math.max(Math.exp(Math.min(s, Math.log(high) + 1)), low), high);
}

const FIXED = 2 ** 15 - 1;

/** z of one block. */
function encoded(b: Block, column: Column | undefined, person: Person): number[] {
  if (b.column === null) return [1];
  const value = numberOf(person, b.column) ?? 0;
  if (b.z === null || column?.kind === "numeric") return numeric(b, column, value);
  return b.z.map((row) => row[value] ?? row[0]!);
}

/** A number, clamped; through its bin where the release holds tables, else in 16-bit fixed point. */
function numeric(b: Block, column: Column | undefined, value: number): number[] {
  const x = Math.min(Math.max(value, column?.low ?? -Infinity), column?.high ?? Infinity);
  if (b.z === null) return [Math.round(((x - b.centre) / b.half) * FIXED) / FIXED];
  const edges = column?.edges ?? [];
  let bin = 0;
  while (bin < edges.length - 2 && x >= edges[bin + 1]!) bin++;
  return b.z.map((row) => row[bin]!);
}


