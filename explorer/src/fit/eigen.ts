/** Eigenvalues and eigenvectors of symmetric matrices: Householder's tridiagonal form, then implicit QL. */

import { compiled, floats } from "./kernel";
import { copied, raw, transposed, zeros, type Matrix } from "./matrix";

export interface Eigen {
  /** In no particular order. */
  readonly values: Float64Array;
  /** Rows, in the order of the values. */
  readonly vectors: Matrix;
}

/** Of all eigenvalues, the test for those whose vectors are asked for. */
export type Wanted = (values: Float64Array) => (value: number) => boolean;

/** a = Q T Q' with T of diagonal d and off-diagonal e (e[i] between i and i + 1); Q as reflectors I − β vv', v from k + 1 on. */
export interface Tridiagonal {
  readonly d: Float64Array;
  readonly e: Float64Array;
  readonly reflectors: Matrix;
  readonly beta: Float64Array;
}

type Five = [Float64Array, Float64Array, Float64Array, Float64Array, Float64Array];

/** The tridiagonal form of a, which is overwritten. */
export function tridiagonal(a: Matrix): Tridiagonal {
  const n = a.rows, A = a.data, V = zeros(n, n), [d, e, beta, v, w] = [0, 1, 2, 3, 4].map(() => floats(n)) as Five, fast = compiled(A, V.data, w);
  if (fast !== null) {
    fast.tridiagonal(A.byteOffset, V.data.byteOffset, d.byteOffset, e.byteOffset, beta.byteOffset, v.byteOffset, w.byteOffset, n);
    return { d, e, reflectors: V, beta };
  }
  for (let k = 0; k < n; k++) {
    const row = k * n;
    d[k] = A[row + k]!;
    if (k + 1 === n) break;
    let tail = 0;
    for (let j = k + 2; j < n; j++) tail += A[row + j]! * A[row + j]!;
    const head = A[row + k + 1]!;
    if (tail === 0) {
      e[k] = head;
      continue;
    }
    const norm = Math.sqrt(head * head + tail), alpha = head > 0 ? -norm : norm;
    e[k] = alpha;
    for (let j = k + 1; j < n; j++) v[j] = V.data[row + j] = A[row + j]!;
    v[k + 1]! -= alpha;
    V.data[row + k + 1] = v[k + 1]!;
    const b = (beta[k] = 1 / (norm * (norm + Math.abs(head))));
    timesUpper(A, n, k + 1, v, w);
    let vw = 0;
    for (let j = k + 1; j < n; j++) vw += v[j]! * (w[j]! *= b);
    const half = (b * vw) / 2;
    for (let j = k + 1; j < n; j++) w[j]! -= half * v[j]!;
    for (let i = k + 1; i < n; i++) {
      const vi = v[i]!, wi = w[i]!;
      for (let j = i, at = i * n + i; j < n; j++, at++) A[at]! -= vi * w[j]! + wi * v[j]!;
    }
  }
  return { d, e, reflectors: V, beta };
}

/** w = A v on rows and columns from `from` on, A symmetric and given by its upper half; two rows at a time. */
function timesUpper(A: Float64Array, n: number, from: number, v: Float64Array, w: Float64Array): void {
  for (let i = from; i < n; i++) w[i] = 0;
  let i = from;
  for (; i + 1 < n; i += 2) {
    const at = i * n, next = at + n, x = v[i]!, y = v[i + 1]!;
    let s = A[at + i]! * x + A[at + i + 1]! * y, t = A[at + i + 1]! * x + A[next + i + 1]! * y;
    for (let j = i + 2; j < n; j++) {
      const p = A[at + j]!, q = A[next + j]!, z = v[j]!;
      s += p * z;
      t += q * z;
      w[j]! += p * x + q * y;
    }
    w[i]! += s;
    w[i + 1]! += t;
  }
  if (i < n) w[i]! += A[i * n + i]! * v[i]!;
}

/** Q, made from the last reflector to the first; four rows at a time. */
function orthogonal(t: Tridiagonal): Matrix {
  const n = t.d.length, out = zeros(n, n), Q = out.data, sum = new Float64Array(n);
  for (let i = 0; i < n; i++) Q[i * n + i] = 1;
  for (let k = n - 3; k >= 0; k--) {
    const b = t.beta[k]!;
    if (b === 0) continue;
    const v = t.reflectors.data.subarray(k * n, (k + 1) * n), from = k + 1;
    sum.fill(0);
    let i = from;
    for (; i + 3 < n; i += 4) {
      const p = v[i]!, q = v[i + 1]!, r = v[i + 2]!, s = v[i + 3]!;
      for (let j = from, at = i * n + from; j < n; j++, at++) {
        sum[j]! += p * Q[at]! + q * Q[at + n]! + r * Q[at + 2 * n]! + s * Q[at + 3 * n]!;
      }
    }
    for (; i < n; i++) for (let j = from; j < n; j++) sum[j]! += v[i]! * Q[i * n + j]!;
    for (let j = from; j < n; j++) sum[j]! *= b;
    for (i = from; i + 3 < n; i += 4) {
      const p = v[i]!, q = v[i + 1]!, r = v[i + 2]!, s = v[i + 3]!;
      for (let j = from, at = i * n + from; j < n; j++, at++) {
        const f = sum[j]!;
        Q[at]! -= p * f;
        Q[at + n]! -= q * f;
        Q[at + 2 * n]! -= r * f;
        Q[at + 3 * n]! -= s * f;
      }
    }
    for (; i < n; i++) for (let j = from; j < n; j++) Q[i * n + j]! -= v[i]! * sum[j]!;
  }
  return out;
}

/** Rotations of columns i and i + 1, kept until enough of them can be applied to a few rows while those are at hand. */
class Sweeps {
  private readonly c: Float64Array;
  private readonly s: Float64Array;
  private readonly ends: number[] = [];
  private used = 0;

  constructor(private readonly Q: Matrix) {
    this.c = new Float64Array(8 * Q.cols);
    this.s = new Float64Array(8 * Q.cols);
  }

  /** Begins a sweep that goes down from column `from`. */
  begin(from: number): void {
    if (this.used + from + 1 > this.c.length) this.flush();
    this.ends.push(from, this.used, this.used);
  }

  rotate(c: number, s: number): void {
    this.c[this.used] = c;
    this.s[this.used++] = s;
    this.ends[this.ends.length - 1] = this.used;
  }

  flush(): void {
    const n = this.Q.cols, rows = this.Q.rows, q = this.Q.data, c = this.c, s = this.s;
    for (let r = 0; r < rows; r += 4) {
      const wide = Math.min(4, rows - r);
      for (let k = 0; k < this.ends.length; k += 3) {
        const from = this.ends[k]!, start = this.ends[k + 1]!, stop = this.ends[k + 2]!;
        if (wide === 4) rotateFour(q, r * n, n, from, c, s, start, stop);
        else for (let i = 0; i < wide; i++) rotateOne(q, (r + i) * n, from, c, s, start, stop);
      }
    }
    this.ends.length = 0;
    this.used = 0;
  }
}

function rotateFour(
  q: Float64Array, at: number, n: number, from: number, c: Float64Array, s: Float64Array, start: number, stop: number,
): void {
  const a = at, b = at + n, d = b + n, f = d + n;
  let ha = q[a + from + 1]!, hb = q[b + from + 1]!, hd = q[d + from + 1]!, hf = q[f + from + 1]!;
  let i = from;
  for (let k = start; k < stop; k++, i--) {
    const cos = c[k]!, sin = s[k]!;
    const xa = q[a + i]!, xb = q[b + i]!, xd = q[d + i]!, xf = q[f + i]!;
    q[a + i + 1] = sin * xa + cos * ha;
    q[b + i + 1] = sin * xb + cos * hb;
    q[d + i + 1] = sin * xd + cos * hd;
    q[f + i + 1] = sin * xf + cos * hf;
    ha = cos * xa - sin * ha;
    hb = cos * xb - sin * hb;
    hd = cos * xd - sin * hd;
    hf = cos * xf - sin * hf;
  }
  q[a + i + 1] = ha;
  q[b + i + 1] = hb;
  q[d + i + 1] = hd;
  q[f + i + 1] = hf;
}

function rotateOne(
  q: Float64Array, at: number, from: number, c: Float64Array, s: Float64Array, start: number, stop: number,
): void {
  let h = q[at + from + 1]!, i = from;
  for (let k = start; k < stop; k++, i--) {
    const x = q[at + i]!;
    q[at + i + 1] = s[k]! * x + c[k]! * h;
    h = c[k]! * x - s[k]! * h;
  }
  q[at + i + 1] = h;
}

/** Eigenvalues that are `wanted`, and their vectors. */
export function eigen(a: Matrix, wanted: Wanted = () => () => true): Eigen {
  return compiledEigen(a, wanted) ?? chosen(plainEigen(a), wanted);
}

function chosen(all: Eigen, wanted: Wanted): Eigen {
  const test = wanted(all.values), kept = Array.from(all.values.keys()).filter((i) => test(all.values[i]!)), n = all.vectors.cols;
  const vectors = raw(kept.length, n);
  kept.forEach((from, to) => vectors.data.set(all.vectors.data.subarray(from * n, (from + 1) * n), to * n));
  return { values: Float64Array.from(kept, (i) => all.values[i]!), vectors };
}

/** Off-diagonals of T under this share of its size are taken for 0: less than rounding has moved T already. */
const SPLIT = 1e-15;

/** Eigenvalues by QL, the vectors of those wanted by one step of inverse iteration each, from a twisted factorisation of T − λ
 * (Parlett and Dhillon), and back through the reflectors; null where that cannot be or some vector is not found.
 */
function compiledEigen(a: Matrix, wanted: Wanted): Eigen | null {
  const n = a.rows, A = copied(a), fast = compiled(A.data);
  if (fast === null || n < 2) return null;
  const t = tridiagonal(A), { d, e } = t, all = floats(n, true), used = floats(n, true), room = floats(2 * n, true);
  if (compiled(t.reflectors.data, room) === null) return null;
  let size = 0;
  for (let i = 0; i < n; i++) size = Math.max(size, Math.abs(d[i]!) + Math.abs(e[i]!) + Math.abs(i ? e[i - 1]! : 0));
  for (let i = 0; i < n; i++) if (Math.abs(e[i]!) <= SPLIT * size) e[i] = 0;
  all.set(d);
  used.set(e);
  fast.eigenvalues(all.byteOffset, used.byteOffset, n);
  const found = ordered(all, e, wanted(all)), count = found.length, values = floats(count, true), vectors = zeros(count, n);
  const ends = floats(count, true);
  if (compiled(vectors.data, ends) === null) return null;
  const pairs = new Int32Array(ends.buffer, ends.byteOffset, 2 * count);
  found.forEach((f, i) => {
    values[i] = f.value;
    pairs[2 * i] = f.from;
    pairs[2 * i + 1] = f.to;
  });
  const done = fast.eigenvectors(
    d.byteOffset, e.byteOffset, values.byteOffset, ends.byteOffset, count, vectors.data.byteOffset, room.byteOffset, n, size,
  );
  if (!done) return null;
  fast.reflected(t.reflectors.data.byteOffset, t.beta.byteOffset, vectors.data.byteOffset, count, n, room.byteOffset);
  return { values, vectors };
}

/** Wanted eigenvalues, ascending, with the first and last row of the part of T that each belongs to. */
function ordered(values: Float64Array, e: Float64Array, wanted: (value: number) => boolean) {
  const n = values.length, out: { readonly value: number; readonly from: number; readonly to: number }[] = [];
  for (let from = 0, to = 0; from < n; from = ++to) {
    while (to < n - 1 && e[to] !== 0) to++;
    for (let i = from; i <= to; i++) if (wanted(values[i]!)) out.push({ value: values[i]!, from, to });
  }
  return out.sort((x, y) => x.value - y.value);
}

/** The same in plain script, by QL with all vectors. */
function plainEigen(a: Matrix): Eigen {
  const n = a.rows, t = tridiagonal(copied(a)), vectors = orthogonal(t), { d, e } = t, sweeps = new Sweeps(vectors);
  for (let l = 0; l < n; l++) {
    for (let turn = 0; turn < 60; turn++) {
      let m = l;
      for (; m < n - 1; m++) {
        const size = Math.abs(d[m]!) + Math.abs(d[m + 1]!);
        if (Math.abs(e[m]!) + size === size) break;
      }
      if (m === l) break;
      sweep(d, e, l, m, sweeps);
    }
  }
  sweeps.flush();
  return { values: d, vectors: transposed(vectors) };
}

/** One implicit QL step on rows l to m. */
function sweep(d: Float64Array, e: Float64Array, l: number, m: number, sweeps: Sweeps): void {
  let g = (d[l + 1]! - d[l]!) / (2 * e[l]!);
  let r = Math.sqrt(g * g + 1);
  g = d[m]! - d[l]! + e[l]! / (g + (g < 0 ? -r : r));
  let s = 1, c = 1, p = 0;
  sweeps.begin(m - 1);
  for (let i = m - 1; i >= l; i--) {
    const f = s * e[i]!, b = c * e[i]!;
    r = Math.sqrt(f * f + g * g);
    e[i + 1] = r;
    if (r === 0) {
      d[i + 1]! -= p;
      e[m] = 0;
      return;
    }
    s = f / r;
    c = g / r;
    g = d[i + 1]! - p;
    r = (d[i]! - g) * s + 2 * c * b;
    p = s * r;
    d[i + 1] = g + p;
    g = c * r - b;
    sweeps.rotate(c, s);
  }
  d[l]! -= p;
  e[l] = g;
  e[m] = 0;
}
