/** Dense matrices, row by row, and the few products that a fit needs. */

import { kernel, room } from "./kernel";

export interface Matrix {
  readonly rows: number;
  readonly cols: number;
  readonly data: Float64Array;
}

export function zeros(rows: number, cols: number): Matrix {
  return { rows, cols, data: new Float64Array(rows * cols) };
}

export function transposed(a: Matrix): Matrix {
  const out = zeros(a.cols, a.rows);
  for (let i = 0; i < a.rows; i++) {
    for (let j = 0; j < a.cols; j++) out.data[j * a.rows + i] = a.data[i * a.cols + j]!;
  }
  return out;
}

/** Rows `rows` and columns `cols` of a. */
export function submatrix(a: Matrix, rows: ArrayLike<number>, cols: ArrayLike<number>): Matrix {
  const out = zeros(rows.length, cols.length);
  for (let i = 0; i < rows.length; i++) {
    const from = rows[i]! * a.cols;
    for (let j = 0; j < cols.length; j++) out.data[i * cols.length + j] = a.data[from + cols[j]!]!;
  }
  return out;
}

export function dot(x: ArrayLike<number>, y: ArrayLike<number>): number {
  let sum = 0;
  for (let i = 0; i < x.length; i++) sum += x[i]! * y[i]!;
  return sum;
}

/** a x. */
export function timesVector(a: Matrix, x: ArrayLike<number>): Float64Array {
  const out = new Float64Array(a.rows);
  for (let i = 0; i < a.rows; i++) {
    let sum = 0;
    for (let j = 0, at = i * a.cols; j < a.cols; j++, at++) sum += a.data[at]! * x[j]!;
    out[i] = sum;
  }
  return out;
}

/** a' x. */
export function transposedTimesVector(a: Matrix, x: ArrayLike<number>): Float64Array {
  const out = new Float64Array(a.cols);
  for (let i = 0; i < a.rows; i++) {
    const f = x[i]!;
    if (f !== 0) for (let j = 0, at = i * a.cols; j < a.cols; j++, at++) out[j]! += f * a.data[at]!;
  }
  return out;
}

/** a b'; `symmetric` computes the lower half and mirrors it. */
export function timesTransposed(a: Matrix, b: Matrix, symmetric = false): Matrix {
  const fast = a.rows * b.rows * a.cols > 4096 ? kernel() : null;
  if (fast === null) return plainTimesTransposed(a, b, symmetric);
  const m = a.rows, n = b.rows, even = a.cols + (a.cols & 1), rows = m + (m & 1), out = zeros(m, n);
  const { places: [pa, pb, po], views: [va, vb, vo] } = room(fast, rows * even, n * even, rows * n);
  padded(a, va!, even);
  if (rows > m) va!.fill(0, m * even);
  padded(b, vb!, even);
  fast.timesTransposed(pa!, pb!, po!, rows, n, even, Number(symmetric));
  out.data.set(vo!.subarray(0, m * n));
  if (symmetric) mirrored(out);
  return out;
}

/** Rows of a into `view`, each filled up with zeros to `even` numbers. */
function padded(a: Matrix, view: Float64Array, even: number): void {
  if (even === a.cols) return view.set(a.data);
  for (let i = 0; i < a.rows; i++) {
    view.set(a.data.subarray(i * a.cols, (i + 1) * a.cols), i * even);
    view[i * even + even - 1] = 0;
  }
}

function mirrored(a: Matrix): void {
  for (let i = 0; i < a.rows; i++) for (let j = 0; j < i; j++) a.data[j * a.cols + i] = a.data[i * a.cols + j]!;
}

/** The same in plain script, in tiles of 4 × 4. */
function plainTimesTransposed(a: Matrix, b: Matrix, symmetric: boolean): Matrix {
  const m = a.rows, n = b.rows, k = a.cols;
  const out = zeros(m, n);
  const A = a.data, B = b.data, C = out.data;
  for (let i = 0; i < m; i += 4) {
    const a0 = i * k, a1 = Math.min(i + 1, m - 1) * k, a2 = Math.min(i + 2, m - 1) * k, a3 = Math.min(i + 3, m - 1) * k;
    const last = symmetric ? Math.min(i + 4, n) : n;
    for (let j = 0; j < last; j += 4) {
      const b0 = j * k, b1 = Math.min(j + 1, n - 1) * k, b2 = Math.min(j + 2, n - 1) * k, b3 = Math.min(j + 3, n - 1) * k;
      let c00 = 0, c01 = 0, c02 = 0, c03 = 0, c10 = 0, c11 = 0, c12 = 0, c13 = 0;
      let c20 = 0, c21 = 0, c22 = 0, c23 = 0, c30 = 0, c31 = 0, c32 = 0, c33 = 0;
      for (let l = 0; l < k; l++) {
        const x = B[b0 + l]!, y = B[b1 + l]!, z = B[b2 + l]!, w = B[b3 + l]!;
        const p = A[a0 + l]!, q = A[a1 + l]!, r = A[a2 + l]!, s = A[a3 + l]!;
        c00 += p * x; c01 += p * y; c02 += p * z; c03 += p * w;
        c10 += q * x; c11 += q * y; c12 += q * z; c13 += q * w;
        c20 += r * x; c21 += r * y; c22 += r * z; c23 += r * w;
        c30 += s * x; c31 += s * y; c32 += s * z; c33 += s * w;
      }
      const wide = n - j, at = i * n + j;
      put(C, at, wide, c00, c01, c02, c03);
      if (i + 1 < m) put(C, at + n, wide, c10, c11, c12, c13);
      if (i + 2 < m) put(C, at + 2 * n, wide, c20, c21, c22, c23);
      if (i + 3 < m) put(C, at + 3 * n, wide, c30, c31, c32, c33);
    }
  }
  if (symmetric) mirrored(out);
  return out;
}

function put(C: Float64Array, at: number, wide: number, a: number, b: number, c: number, d: number): void {
  C[at] = a;
  if (wide > 1) C[at + 1] = b;
  if (wide > 2) C[at + 2] = c;
  if (wide > 3) C[at + 3] = d;
}

/** Lower L with LL' = a; a pivot that rounding made negative is raised to a trace of the largest. */
export function cholesky(a: Matrix): Matrix {
  const n = a.rows, out = zeros(n, n), L = out.data, A = a.data, fast = n > 8 ? kernel() : null;
  if (fast !== null) {
    const { places: [p], views: [v] } = room(fast, n * n);
    v!.set(A);
    fast.cholesky(p!, n);
    L.set(v!);
    return out;
  }
  let largest = 0;
  for (let i = 0; i < n; i++) largest = Math.max(largest, A[i * n + i]!);
  for (let i = 0; i < n; i++) {
    const ri = i * n;
    for (let j = 0; j <= i; j++) {
      const rj = j * n;
      let sum = A[ri + j]!, more = 0;
      let l = 0;
      for (; l + 1 < j; l += 2) {
        sum -= L[ri + l]! * L[rj + l]!;
        more += L[ri + l + 1]! * L[rj + l + 1]!;
      }
      if (l < j) sum -= L[ri + l]! * L[rj + l]!;
      sum -= more;
      L[ri + j] = i === j ? Math.sqrt(Math.max(sum, 1e-15 * largest)) : sum / L[rj + j]!;
    }
  }
  return out;
}

/** Rows x of the result solve L x = b for each row b, in place. */
export function forwardSolve(L: Matrix, rows: Matrix): Matrix {
  const s = L.rows, l = L.data, X = rows.data, fast = rows.rows * s > 256 ? kernel() : null;
  if (fast !== null) {
    const four = (rows.rows + 3) & ~3, { places: [pl, px], views: [vl, vx] } = room(fast, s * s, four * s);
    vl!.set(l);
    vx!.set(X);
    vx!.fill(0, X.length);
    fast.forwardSolve(pl!, px!, four, s);
    X.set(vx!.subarray(0, X.length));
    return rows;
  }
  let r = 0;
  for (; r + 3 < rows.rows; r += 4) {
    const x0 = r * s, x1 = x0 + s, x2 = x1 + s, x3 = x2 + s;
    for (let i = 0; i < s; i++) {
      const at = i * s;
      let t0 = X[x0 + i]!, t1 = X[x1 + i]!, t2 = X[x2 + i]!, t3 = X[x3 + i]!;
      for (let j = 0; j < i; j++) {
        const f = l[at + j]!;
        t0 -= f * X[x0 + j]!; t1 -= f * X[x1 + j]!; t2 -= f * X[x2 + j]!; t3 -= f * X[x3 + j]!;
      }
      const d = 1 / l[at + i]!;
      X[x0 + i] = t0 * d; X[x1 + i] = t1 * d; X[x2 + i] = t2 * d; X[x3 + i] = t3 * d;
    }
  }
  for (; r < rows.rows; r++) forwardVector(L, X.subarray(r * s, (r + 1) * s));
  return rows;
}

/** x with L x = b, in place. */
export function forwardVector(L: Matrix, x: Float64Array): Float64Array {
  const s = L.rows, l = L.data;
  for (let i = 0; i < s; i++) {
    let t = x[i]!;
    for (let j = 0; j < i; j++) t -= l[i * s + j]! * x[j]!;
    x[i] = t / l[i * s + i]!;
  }
  return x;
}

/** Rows x of the result solve L' x = b for each row b, in place: L' turned round is lower, and x and b with it. */
export function backwardSolve(L: Matrix, rows: Matrix): Matrix {
  const s = L.rows, turned = zeros(s, s);
  for (let i = 0; i < s; i++) for (let j = 0; j <= i; j++) turned.data[i * s + j] = L.data[(s - 1 - j) * s + s - 1 - i]!;
  const reverse = () => {
    for (let r = 0; r < rows.rows; r++) rows.data.subarray(r * s, (r + 1) * s).reverse();
  };
  reverse();
  forwardSolve(turned, rows);
  reverse();
  return rows;
}
