/** Dense matrices, row by row, and the few products that a fit needs. */

import { compiled, floats } from "./kernel";

export interface Matrix {
  readonly rows: number;
  readonly cols: number;
  readonly data: Float64Array;
}

export function zeros(rows: number, cols: number): Matrix {
  return { rows, cols, data: floats(rows * cols) };
}

/** A matrix that is about to be overwritten. */
export function raw(rows: number, cols: number): Matrix {
  return { rows, cols, data: floats(rows * cols, true) };
}

export function copied(a: Matrix, out = raw(a.rows, a.cols)): Matrix {
  out.data.set(a.data);
  return out;
}

export function transposed(a: Matrix, out = raw(a.cols, a.rows)): Matrix {
  const { rows, cols, data } = a, X = out.data;
  for (let i = 0, at = 0; i < rows; i++) for (let j = 0, to = i; j < cols; j++, at++, to += rows) X[to] = data[at]!;
  return out;
}

/** Rows `rows` and columns `cols` of a. */
export function submatrix(a: Matrix, rows: ArrayLike<number>, cols: ArrayLike<number>): Matrix {
  const out = raw(rows.length, cols.length), X = out.data, A = a.data, columns = Int32Array.from(cols), wide = columns.length;
  for (let i = 0, at = 0; i < rows.length; i++) {
    const from = rows[i]! * a.cols;
    for (let j = 0; j < wide; j++, at++) X[at] = A[from + columns[j]!]!;
  }
  return out;
}

export function dot(x: ArrayLike<number>, y: ArrayLike<number>): number {
  let sum = 0;
  for (let i = 0; i < x.length; i++) sum += x[i]! * y[i]!;
  return sum;
}

/** a x. */
export function timesVector(a: Matrix, x: Float64Array): Float64Array {
  const { rows, cols, data } = a;
  if (compiled(data) === null) return plainTimesVector(a, x);
  const here = floats(cols, true), out = floats(rows, true), fast = compiled(here, out);
  if (fast === null) return plainTimesVector(a, x);
  here.set(x);
  fast.timesVector(data.byteOffset, here.byteOffset, out.byteOffset, rows, cols);
  return out;
}

function plainTimesVector({ rows, cols, data }: Matrix, x: Float64Array): Float64Array {
  const out = new Float64Array(rows);
  for (let i = 0, at = 0; i < rows; i++) {
    let sum = 0;
    for (let j = 0; j < cols; j++, at++) sum += data[at]! * x[j]!;
    out[i] = sum;
  }
  return out;
}

/** f a + g b, over `out`. */
export function combined(a: Matrix, f: number, b: Matrix, g: number, out: Matrix): Matrix {
  const x = a.data, y = b.data, z = out.data, fast = compiled(x, y, z);
  if (fast !== null) fast.combined(x.byteOffset, f, y.byteOffset, g, z.byteOffset, z.length);
  else for (let i = 0; i < z.length; i++) z[i] = f * x[i]! + g * y[i]!;
  return out;
}

/** M + xy', in place, "n n". */
export function plusOuter(M: Matrix, x: Float64Array, y = x): Matrix {
  const n = M.rows, X = M.data, a = floats(n, true), b = floats(n, true), fast = compiled(X, a, b);
  a.set(x);
  b.set(y);
  if (fast !== null) fast.plusOuter(X.byteOffset, a.byteOffset, b.byteOffset, n);
  else for (let i = 0, at = 0; i < n; i++) for (let j = 0; j < n; j++, at++) X[at]! += a[i]! * b[j]!;
  return M;
}

/** Rows `from` to `to` of M times the numbers of `row`, in place, "n n". */
export function timesRow(M: Matrix, from: number, to: number, row: Float64Array): void {
  const n = M.cols, X = M.data, fast = compiled(X, row);
  if (fast !== null) fast.timesRow(X.byteOffset, from, to, row.byteOffset, n);
  else for (let i = from, at = from * n; i < to; i++) for (let j = 0; j < n; j++, at++) X[at]! *= row[j]!;
}

/** a' x. */
export function transposedTimesVector(a: Matrix, x: Float64Array): Float64Array {
  const out = new Float64Array(a.cols), { rows, cols, data } = a;
  for (let i = 0; i < rows; i++) {
    const f = x[i]!;
    if (f !== 0) for (let j = 0, at = i * cols; j < cols; j++, at++) out[j]! += f * data[at]!;
  }
  return out;
}

/** a b'; of a `symmetric` one half is computed. */
export function timesTransposed(a: Matrix, b: Matrix, symmetric = false, out = raw(a.rows, b.rows)): Matrix {
  const fast = compiled(a.data, b.data, out.data), m = a.rows, n = b.rows, k = a.cols;
  if (fast === null) plainTimesTransposed(a, b, symmetric, out);
  else fast.timesTransposed(a.data.byteOffset, b.data.byteOffset, out.data.byteOffset, m, n, k, Number(symmetric));
  return out;
}

/** x'Cx for each row x of X and symmetric C. */
export function forms(X: Matrix, C: Matrix): Float64Array {
  const r = X.rows, s = X.cols, out = floats(r, true), fast = compiled(X.data, C.data, out);
  if (fast !== null) {
    fast.forms(X.data.byteOffset, C.data.byteOffset, out.byteOffset, r, s);
    return out;
  }
  const through = timesTransposed(X, C);
  for (let i = 0; i < r; i++) out[i] = dot(X.data.subarray(i * s, (i + 1) * s), through.data.subarray(i * s, (i + 1) * s));
  return out;
}

/** a b' in plain script, in tiles of 4 × 4. */
function plainTimesTransposed(a: Matrix, b: Matrix, symmetric: boolean, out: Matrix): void {
  const m = a.rows, n = b.rows, k = a.cols;
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
}

/** The upper half from the lower. */
function mirrored(a: Matrix): void {
  for (let i = 0; i < a.rows; i++) for (let j = 0; j < i; j++) a.data[j * a.cols + i] = a.data[i * a.cols + j]!;
}

function put(C: Float64Array, at: number, wide: number, a: number, b: number, c: number, d: number): void {
  C[at] = a;
  if (wide > 1) C[at + 1] = b;
  if (wide > 2) C[at + 2] = c;
  if (wide > 3) C[at + 3] = d;
}

/** Lower L with LL' = a; a pivot that rounding made negative is raised to a trace of the largest. */
export function cholesky(a: Matrix, out = raw(a.rows, a.rows)): Matrix {
  const n = a.rows, L = out.data, fast = compiled(L);
  L.set(a.data);
  if (fast !== null) {
    fast.cholesky(L.byteOffset, n);
    return out;
  }
  let largest = 0;
  for (let i = 0; i < n; i++) largest = Math.max(largest, L[i * n + i]!);
  for (let i = 0; i < n; i++) {
    const ri = i * n;
    for (let j = 0; j <= i; j++) {
      const rj = j * n;
      let sum = L[ri + j]!;
      for (let l = 0; l < j; l++) sum -= L[ri + l]! * L[rj + l]!;
      L[ri + j] = i === j ? Math.sqrt(Math.max(sum, 1e-15 * largest)) : sum / L[rj + j]!;
    }
    L.fill(0, ri + i + 1, ri + n);
  }
  return out;
}

/** Rows x of the result solve L x = b for each row b, in place; of a `symmetric` result half is computed. */
export function forwardSolve(L: Matrix, rows: Matrix, symmetric = false): Matrix {
  const s = L.rows, l = L.data, X = rows.data, fast = compiled(l, X);
  if (fast !== null) {
    fast.forwardSolve(l.byteOffset, X.byteOffset, rows.rows, s, Number(symmetric));
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
