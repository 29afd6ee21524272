/** The heavy loops of a fit in WebAssembly, two numbers at a time; each has a plain twin in ../src/fit, which is its judge. */

// @ts-nocheck: AssemblyScript, not TypeScript: usize, v128 and load<f64> are its own

@inline function at(p: usize, i: i32): usize { return p + (<usize>i << 3); }
@inline function get(p: usize, i: i32): f64 { return load<f64>(p + (<usize>i << 3)); }
@inline function set(p: usize, i: i32, x: f64): void { store<f64>(p + (<usize>i << 3), x); }
@inline function sum2(x: v128): f64 { return f64x2.extract_lane(x, 0) + f64x2.extract_lane(x, 1); }

/** s + xy, rounded once where the machine can and the browser says so. */
@inline function plus(s: v128, x: v128, y: v128): v128 {
  return ASC_FEATURE_RELAXED_SIMD ? f64x2.relaxed_madd(x, y, s) : f64x2.add(s, f64x2.mul(x, y));
}

/** s − xy, likewise. */
@inline function minus(s: v128, x: v128, y: v128): v128 {
  return ASC_FEATURE_RELAXED_SIMD ? f64x2.relaxed_nmadd(x, y, s) : f64x2.sub(s, f64x2.mul(x, y));
}

/** x'y of n numbers. */
function dot(x: usize, y: usize, n: i32): f64 {
  let s = f64x2.splat(0), t = s, l = 0;
  for (; l + 3 < n; l += 4) {
    s = plus(s, v128.load(at(x, l)), v128.load(at(y, l)));
    t = plus(t, v128.load(at(x, l), 16), v128.load(at(y, l), 16));
  }
  let sum = sum2(f64x2.add(s, t));
  for (; l < n; l++) sum += get(x, l) * get(y, l);
  return sum;
}

/** The upper half of a, "n n", from its lower half. */
function mirror(a: usize, n: i32): void {
  for (let i = 1; i < n; i++) {
    const row = at(a, i * n);
    for (let j = 0; j < i; j++) set(a, j * n + i, get(row, j));
  }
}

/** out = a b', "m n", for a "m k" and b "n k"; of a symmetric product half is computed. */
export function timesTransposed(a: usize, b: usize, out: usize, m: i32, n: i32, k: i32, symmetric: bool): void {
  const step: usize = <usize>k << 3, even: usize = <usize>(k & ~1) << 3;
  let i = 0;
  for (; i + 1 < m; i += 2) {
    const a0 = a + <usize>i * step, a1 = a0 + step, last = symmetric ? i + 2 : n;
    let j = 0;
    for (; j + 3 < last; j += 4) {
      const b0 = b + <usize>j * step, b1 = b0 + step, b2 = b1 + step, b3 = b2 + step;
      let c00 = f64x2.splat(0), c01 = c00, c02 = c00, c03 = c00, c10 = c00, c11 = c00, c12 = c00, c13 = c00;
      for (let l: usize = 0; l < even; l += 16) {
        const p = v128.load(a0 + l), q = v128.load(a1 + l);
        let x = v128.load(b0 + l);
        c00 = plus(c00, p, x);
        c10 = plus(c10, q, x);
        x = v128.load(b1 + l);
        c01 = plus(c01, p, x);
        c11 = plus(c11, q, x);
        x = v128.load(b2 + l);
        c02 = plus(c02, p, x);
        c12 = plus(c12, q, x);
        x = v128.load(b3 + l);
        c03 = plus(c03, p, x);
        c13 = plus(c13, q, x);
      }
      let p: f64 = 0, q: f64 = 0, x: f64 = 0, y: f64 = 0, z: f64 = 0, w: f64 = 0;
      if (even < step) {
        p = load<f64>(a0 + even); q = load<f64>(a1 + even);
        x = load<f64>(b0 + even); y = load<f64>(b1 + even); z = load<f64>(b2 + even); w = load<f64>(b3 + even);
      }
      const o = at(out, i * n + j), o1 = at(o, n);
      store<f64>(o, sum2(c00) + p * x); store<f64>(o, sum2(c01) + p * y, 8);
      store<f64>(o, sum2(c02) + p * z, 16); store<f64>(o, sum2(c03) + p * w, 24);
      store<f64>(o1, sum2(c10) + q * x); store<f64>(o1, sum2(c11) + q * y, 8);
      store<f64>(o1, sum2(c12) + q * z, 16); store<f64>(o1, sum2(c13) + q * w, 24);
    }
    for (; j < last; j++) {
      const b0 = b + <usize>j * step;
      set(out, i * n + j, dot(a0, b0, k));
      set(out, (i + 1) * n + j, dot(a1, b0, k));
    }
  }
  if (i < m) for (let j = 0; j < n; j++) set(out, i * n + j, dot(a + <usize>i * step, b + <usize>j * step, k));
  if (symmetric) mirror(out, n);
}

/** out = a x for a "m n". */
export function timesVector(a: usize, x: usize, out: usize, m: i32, n: i32): void {
  for (let i = 0; i < m; i++) set(out, i, dot(at(a, i * n), x, n));
}

/** out = f x + g y, n numbers each. */
export function combined(x: usize, f: f64, y: usize, g: f64, out: usize, n: i32): void {
  const ff = f64x2.splat(f), gg = f64x2.splat(g);
  let i = 0;
  for (; i + 1 < n; i += 2) v128.store(at(out, i), plus(f64x2.mul(ff, v128.load(at(x, i))), gg, v128.load(at(y, i))));
  if (i < n) set(out, i, f * get(x, i) + g * get(y, i));
}

/** y + f x, in place, n numbers. */
export function plusTimes(y: usize, f: f64, x: usize, n: i32): void {
  combined(x, f, y, 1, y, n);
}

/** M + xy' for M "n n", in place. */
export function plusOuter(M: usize, x: usize, y: usize, n: i32): void {
  for (let i = 0; i < n; i++) {
    const row = at(M, i * n), f = get(x, i), ff = f64x2.splat(f);
    let j = 0;
    for (; j + 1 < n; j += 2) v128.store(at(row, j), plus(v128.load(at(row, j)), ff, v128.load(at(y, j))));
    if (j < n) set(row, j, get(row, j) + f * get(y, j));
  }
}

/** Rows of M, "n n", from `from` to `to`, times the numbers of one row, in place. */
export function timesRow(M: usize, from: i32, to: i32, f: usize, n: i32): void {
  for (let i = from; i < to; i++) {
    const row = at(M, i * n);
    let j = 0;
    for (; j + 1 < n; j += 2) v128.store(at(row, j), f64x2.mul(v128.load(at(row, j)), v128.load(at(f, j))));
    if (j < n) set(row, j, get(row, j) * get(f, j));
  }
}

/** Four rows x from X on, `wide` numbers each, solve L x = b up to place s, in place; rows of L are `long` numbers. */
function solveFour(L: usize, long: i32, X: usize, wide: i32, s: i32): void {
  const x0 = X, x1 = at(x0, wide), x2 = at(x1, wide), x3 = at(x2, wide);
  let i = 0;
  for (; i + 1 < s; i += 2) {
    const l = at(L, i * long), k = at(l, long);
    let t0 = f64x2.splat(0), t1 = t0, t2 = t0, t3 = t0, u0 = t0, u1 = t0, u2 = t0, u3 = t0;
    for (let j: usize = 0, stop: usize = <usize>i << 3; j < stop; j += 16) {
      const f = v128.load(l + j), g = v128.load(k + j);
      let x = v128.load(x0 + j);
      t0 = plus(t0, f, x);
      u0 = plus(u0, g, x);
      x = v128.load(x1 + j);
      t1 = plus(t1, f, x);
      u1 = plus(u1, g, x);
      x = v128.load(x2 + j);
      t2 = plus(t2, f, x);
      u2 = plus(u2, g, x);
      x = v128.load(x3 + j);
      t3 = plus(t3, f, x);
      u3 = plus(u3, g, x);
    }
    const d = 1 / get(l, i), below = get(k, i), e = 1 / get(k, i + 1);
    const y0 = (get(x0, i) - sum2(t0)) * d, y1 = (get(x1, i) - sum2(t1)) * d;
    const y2 = (get(x2, i) - sum2(t2)) * d, y3 = (get(x3, i) - sum2(t3)) * d;
    set(x0, i, y0); set(x1, i, y1); set(x2, i, y2); set(x3, i, y3);
    set(x0, i + 1, (get(x0, i + 1) - sum2(u0) - below * y0) * e);
    set(x1, i + 1, (get(x1, i + 1) - sum2(u1) - below * y1) * e);
    set(x2, i + 1, (get(x2, i + 1) - sum2(u2) - below * y2) * e);
    set(x3, i + 1, (get(x3, i + 1) - sum2(u3) - below * y3) * e);
  }
  if (i == s) return;
  const l = at(L, i * long), d = 1 / get(l, i);
  set(x0, i, (get(x0, i) - dot(l, x0, i)) * d);
  set(x1, i, (get(x1, i) - dot(l, x1, i)) * d);
  set(x2, i, (get(x2, i) - dot(l, x2, i)) * d);
  set(x3, i, (get(x3, i) - dot(l, x3, i)) * d);
}

/** The same for one row. */
function solveOne(L: usize, long: i32, x: usize, s: i32): void {
  for (let i = 0; i < s; i++) {
    const l = at(L, i * long);
    set(x, i, (get(x, i) - dot(l, x, i)) / get(l, i));
  }
}

/** Lower L with LL' = A, in place, zeros above; a pivot that rounding made negative is raised to a trace of the largest. */
export function cholesky(A: usize, n: i32): void {
  let largest: f64 = 0;
  for (let i = 0; i < n; i++) largest = max(largest, get(A, i * n + i));
  for (let from = 0; from < n; from += 4) {
    const stop = min(from + 4, n), panel = at(A, from * n);
    if (stop == from + 4) solveFour(A, n, panel, n, from);
    else for (let i = from; i < stop; i++) solveOne(A, n, at(A, i * n), from);
    for (let i = from; i < stop; i++) {
      const x = at(A, i * n);
      for (let j = from; j <= i; j++) {
        const y = at(A, j * n), sum = get(x, j) - dot(x, y, j);
        set(x, j, i == j ? Math.sqrt(max(sum, 1e-15 * largest)) : sum / get(y, j));
      }
      for (let j = i + 1; j < n; j++) set(x, j, 0);
    }
  }
}

/** Rows x of X, "r s", solve L x = b for each row b, in place; of a symmetric result half is computed. */
export function forwardSolve(L: usize, X: usize, r: i32, s: i32, symmetric: bool): void {
  let row = 0;
  for (; row + 3 < r; row += 4) solveFour(L, s, at(X, row * s), s, symmetric ? row + 4 : s);
  for (; row < r; row++) solveOne(L, s, at(X, row * s), symmetric ? row + 1 : s);
  if (symmetric) mirror(X, s);
}

/** out = x'Cx for each row x of X, "r s", and symmetric C, by its lower half; two rows of C and four of X at a time. */
export function forms(X: usize, C: usize, out: usize, r: i32, s: i32): void {
  for (let row = 0; row < r; row += 4) {
    const x0 = at(X, row * s), x1 = row + 1 < r ? at(x0, s) : x0, x2 = row + 2 < r ? at(x1, s) : x1, x3 = row + 3 < r ? at(x2, s) : x2;
    let s0: f64 = 0, s1: f64 = 0, s2: f64 = 0, s3: f64 = 0, i = 0;
    for (; i + 1 < s; i += 2) {
      const l = at(C, i * s), k = at(l, s);
      let t0 = f64x2.splat(0), t1 = t0, t2 = t0, t3 = t0, u0 = t0, u1 = t0, u2 = t0, u3 = t0;
      for (let j: usize = 0, stop: usize = <usize>i << 3; j < stop; j += 16) {
        const f = v128.load(l + j), g = v128.load(k + j);
        let x = v128.load(x0 + j);
        t0 = plus(t0, f, x);
        u0 = plus(u0, g, x);
        x = v128.load(x1 + j);
        t1 = plus(t1, f, x);
        u1 = plus(u1, g, x);
        x = v128.load(x2 + j);
        t2 = plus(t2, f, x);
        u2 = plus(u2, g, x);
        x = v128.load(x3 + j);
        t3 = plus(t3, f, x);
        u3 = plus(u3, g, x);
      }
      const a = get(l, i), b = get(k, i), c = get(k, i + 1);
      s0 += twice(x0, i, a, b, c, sum2(t0), sum2(u0));
      s1 += twice(x1, i, a, b, c, sum2(t1), sum2(u1));
      s2 += twice(x2, i, a, b, c, sum2(t2), sum2(u2));
      s3 += twice(x3, i, a, b, c, sum2(t3), sum2(u3));
    }
    if (i < s) {
      const l = at(C, i * s), a = get(l, i);
      s0 += get(x0, i) * (2 * dot(l, x0, i) + a * get(x0, i));
      s1 += get(x1, i) * (2 * dot(l, x1, i) + a * get(x1, i));
      s2 += get(x2, i) * (2 * dot(l, x2, i) + a * get(x2, i));
      s3 += get(x3, i) * (2 * dot(l, x3, i) + a * get(x3, i));
    }
    set(out, row, s0);
    if (row + 1 < r) set(out, row + 1, s1);
    if (row + 2 < r) set(out, row + 2, s2);
    if (row + 3 < r) set(out, row + 3, s3);
  }
}

/** What two more rows of C, with the corner a, b, c, add to x'Cx; t and u are their products with x before the corner. */
@inline function twice(x: usize, i: i32, a: f64, b: f64, c: f64, t: f64, u: f64): f64 {
  const p = get(x, i), q = get(x, i + 1);
  return p * (2 * t + a * p) + q * (2 * (u + b * p) + c * q);
}

/** A → tridiagonal d, e; rows of V, zeros before, are the reflectors' vectors, beta their factors; v and w are room for n numbers.
 *
 * The matrix is gone through once for each reflector: what the last one changes and what the next one needs in one go.
 */
export function tridiagonal(A: usize, V: usize, d: usize, e: usize, beta: usize, v: usize, w: usize, n: i32): void {
  let last = at(V, (n - 1) * n);
  memory.fill(w, 0, <usize>n << 3);
  for (let k = 0; k < n; k++) {
    const row = at(A, k * n), next = at(V, k * n), a = get(last, k), b = get(w, k);
    for (let j = k; j < n; j++) set(row, j, get(row, j) - (a * get(w, j) + b * get(last, j)));
    set(d, k, get(row, k));
    set(e, k, 0);
    set(beta, k, 0);
    if (k + 1 == n) break;
    const head = get(row, k + 1), tail = dot(at(row, k + 2), at(row, k + 2), n - k - 2);
    if (tail == 0) set(e, k, head);
    else {
      const norm = Math.sqrt(head * head + tail), alpha = head > 0 ? -norm : norm;
      set(e, k, alpha);
      set(beta, k, 1 / (norm * (norm + Math.abs(head))));
      memory.copy(at(next, k + 1), at(row, k + 1), <usize>(n - k - 1) << 3);
      set(next, k + 1, head - alpha);
    }
    through(A, n, k + 1, last, w, next, v);
    const f = get(beta, k), half = f * f * dot(at(next, k + 1), at(v, k + 1), n - k - 1) / 2;
    for (let j = k + 1; j < n; j++) set(v, j, f * get(v, j) - half * get(next, j));
    const swap = v;
    v = w;
    w = swap;
    last = next;
  }
}

/** From row and column `from` on, A by its upper half: A less xy' + yx', in place, and out = A z; two rows at a time. */
function through(A: usize, n: i32, from: i32, x: usize, y: usize, z: usize, out: usize): void {
  for (let i = from; i < n; i++) set(out, i, 0);
  let i = from;
  for (; i + 1 < n; i += 2) {
    const row = at(A, i * n), next = at(row, n), a = get(x, i), b = get(y, i), c = get(x, i + 1), d = get(y, i + 1), p = get(z, i), q = get(z, i + 1);
    const corner = get(row, i) - 2 * a * b, side = get(row, i + 1) - (a * d + b * c), end = get(next, i + 1) - 2 * c * d;
    set(row, i, corner); set(row, i + 1, side); set(next, i + 1, end);
    const aa = f64x2.splat(a), bb = f64x2.splat(b), cc = f64x2.splat(c), dd = f64x2.splat(d), pp = f64x2.splat(p), qq = f64x2.splat(q);
    let s = f64x2.splat(0), t = s, j = i + 2;
    for (; j + 1 < n; j += 2) {
      const u = v128.load(at(x, j)), v = v128.load(at(y, j)), w = v128.load(at(z, j));
      const f = minus(minus(v128.load(at(row, j)), aa, v), bb, u);
      const g = minus(minus(v128.load(at(next, j)), cc, v), dd, u);
      v128.store(at(row, j), f);
      v128.store(at(next, j), g);
      s = plus(s, f, w);
      t = plus(t, g, w);
      v128.store(at(out, j), plus(plus(v128.load(at(out, j)), f, pp), g, qq));
    }
    let m = sum2(s) + corner * p + side * q, o = sum2(t) + side * p + end * q;
    if (j < n) {
      const f = get(row, j) - (a * get(y, j) + b * get(x, j)), g = get(next, j) - (c * get(y, j) + d * get(x, j));
      set(row, j, f);
      set(next, j, g);
      m += f * get(z, j);
      o += g * get(z, j);
      set(out, j, get(out, j) + f * p + g * q);
    }
    set(out, i, get(out, i) + m);
    set(out, i + 1, get(out, i + 1) + o);
  }
  if (i < n) {
    const f = get(A, i * n + i) - 2 * get(x, i) * get(y, i);
    set(A, i * n + i, f);
    set(out, i, get(out, i) + f * get(z, i));
  }
}

/** Eigenvalues of the tridiagonal d, e, over d, by implicit QL; e is used up. */
export function eigenvalues(d: usize, e: usize, n: i32): void {
  for (let l = 0; l < n; l++) {
    for (let turn = 0; turn < 60; turn++) {
      let m = l;
      for (; m < n - 1; m++) {
        const size = Math.abs(get(d, m)) + Math.abs(get(d, m + 1));
        if (Math.abs(get(e, m)) + size == size) break;
      }
      if (m == l) break;
      let g = (get(d, l + 1) - get(d, l)) / (2 * get(e, l)), r = Math.sqrt(g * g + 1);
      g = get(d, m) - get(d, l) + get(e, l) / (g + (g < 0 ? -r : r));
      let s: f64 = 1, c: f64 = 1, p: f64 = 0, i = m - 1;
      for (; i >= l; i--) {
        const f = s * get(e, i), b = c * get(e, i);
        r = Math.sqrt(f * f + g * g);
        set(e, i + 1, r);
        if (r == 0) {
          set(d, i + 1, get(d, i + 1) - p);
          set(e, m, 0);
          break;
        }
        const inverse = 1 / r;
        s = f * inverse;
        c = g * inverse;
        g = get(d, i + 1) - p;
        r = (get(d, i) - g) * s + 2 * c * b;
        p = s * r;
        set(d, i + 1, g + p);
        g = c * r - b;
      }
      if (i >= l) continue;
      set(d, l, get(d, l) - p);
      set(e, l, g);
      set(e, m, 0);
    }
  }
}

/** z with (T − λ)z small, T's rows `from` to `to` by d and e, from the factorisation that is twisted where z is largest;
 *  room: up and down for n numbers each. Returns γ/z'z, by which λ misses; z has length 1. */
function twisted(d: usize, e: usize, from: i32, to: i32, lambda: f64, tiny: f64, z: usize, up: usize, down: usize): f64 {
  let pivot = get(d, to) - lambda;
  set(down, to, pivot);
  for (let i = to - 1; i >= from; i--) {
    if (Math.abs(pivot) < tiny) pivot = tiny;
    const off = get(e, i), m = off / pivot;
    set(z, i + 1, m);
    pivot = get(d, i) - lambda - m * off;
    set(down, i, pivot);
  }
  let least = Math.abs(pivot), gamma = pivot, twist = from;
  pivot = get(d, from) - lambda;
  for (let i = from; i < to; i++) {
    if (Math.abs(pivot) < tiny) pivot = tiny;
    const off = get(e, i), l = off / pivot;
    set(up, i, l);
    const own = get(d, i + 1) - lambda;
    pivot = own - l * off;
    const found = pivot + get(down, i + 1) - own;
    if (Math.abs(found) < least) {
      least = Math.abs(found);
      gamma = found;
      twist = i + 1;
    }
  }
  let x: f64 = 1, sum: f64 = 1;
  for (let i = twist + 1; i <= to; i++) {
    x = -get(z, i) * x;
    set(z, i, x);
    sum += x * x;
  }
  set(z, twist, 1);
  x = 1;
  for (let i = twist - 1; i >= from; i--) {
    x = -get(up, i) * x;
    set(z, i, x);
    sum += x * x;
  }
  const scale = 1 / Math.sqrt(sum);
  for (let i = from; i <= to; i++) set(z, i, get(z, i) * scale);
  return gamma / sum;
}

/** z less its part along y, both of n numbers. */
function less(z: usize, y: usize, n: i32): void {
  const f = dot(z, y, n), ff = f64x2.splat(f);
  let l = 0;
  for (; l + 1 < n; l += 2) v128.store(at(z, l), minus(v128.load(at(z, l)), ff, v128.load(at(y, l))));
  if (l < n) set(z, l, get(z, l) - f * get(y, l));
}

/** Rows of Z, "count n", zeros before: eigenvectors of T to `values`, ascending, whose parts of T begin and end at `ends` (two i32
 *  each). Neighbours nearer than 1e-4 of T's size are made orthogonal. False if that leaves nothing of one, or one is not found. */
export function eigenvectors(d: usize, e: usize, values: usize, ends: usize, count: i32, Z: usize, room: usize, n: i32, size: f64): bool {
  const up = room, down = at(room, n), tiny = 1e-290 + size * 1e-30;
  for (let i = 0; i < count; i++) {
    const z = at(Z, i * n), from = load<i32>(ends + (<usize>i << 3)), to = load<i32>(ends + (<usize>i << 3), 4);
    let lambda = get(values, i), missed: f64 = 0;
    for (let turn = 0; turn < 3; turn++) {
      missed = twisted(d, e, from, to, lambda, tiny, z, up, down);
      if (Math.abs(missed) <= 5e-16 * size) break;
      lambda += missed;
    }
    if (!(Math.abs(missed) <= 1e-13 * size)) return false;
    let near = i;
    while (near > 0 && get(values, i) - get(values, near - 1) < 1e-4 * size) near--;
    if (near == i) continue;
    for (let j = near; j < i; j++) less(at(z, from), at(Z, j * n + from), to + 1 - from);
    const left = dot(at(z, from), at(z, from), to + 1 - from);
    if (!(left > 0.01)) return false;
    if (left < 0.9) for (let j = near; j < i; j++) less(at(z, from), at(Z, j * n + from), to + 1 - from);
    const scale = 1 / Math.sqrt(left);
    for (let l = from; l <= to; l++) set(z, l, get(z, l) * scale);
  }
  return true;
}

/** Rows z of Z, "count n", become Q z for the reflectors of Q, two of them and four rows at a time; room: n numbers. */
export function reflected(V: usize, beta: usize, Z: usize, count: i32, n: i32, room: usize): void {
  for (let k = n - 3; k > 0; k -= 2) set(room, k, dot(at(V, k * n + k), at(V, (k - 1) * n + k), n - k));
  for (let row = 0; row < count; row += 4) {
    const z0 = at(Z, row * n), z1 = row + 1 < count ? at(z0, n) : z0, z2 = row + 2 < count ? at(z1, n) : z1, z3 = row + 3 < count ? at(z2, n) : z2;
    const rows = min(count - row, 4);
    let k = n - 3;
    for (; k > 0; k -= 2) {
      const last = at(V, k * n), first = at(V, (k - 1) * n), bl = get(beta, k), bf = get(beta, k - 1), both = get(room, k);
      let s0 = f64x2.splat(0), s1 = s0, s2 = s0, s3 = s0, t0 = s0, t1 = s0, t2 = s0, t3 = s0, j = k;
      for (; j + 1 < n; j += 2) {
        const v = v128.load(at(last, j)), w = v128.load(at(first, j));
        let z = v128.load(at(z0, j));
        s0 = plus(s0, v, z);
        t0 = plus(t0, w, z);
        z = v128.load(at(z1, j));
        s1 = plus(s1, v, z);
        t1 = plus(t1, w, z);
        z = v128.load(at(z2, j));
        s2 = plus(s2, v, z);
        t2 = plus(t2, w, z);
        z = v128.load(at(z3, j));
        s3 = plus(s3, v, z);
        t3 = plus(t3, w, z);
      }
      let a0 = sum2(s0), a1 = sum2(s1), a2 = sum2(s2), a3 = sum2(s3), b0 = sum2(t0), b1 = sum2(t1), b2 = sum2(t2), b3 = sum2(t3);
      if (j < n) {
        const v = get(last, j), w = get(first, j);
        a0 += v * get(z0, j); a1 += v * get(z1, j); a2 += v * get(z2, j); a3 += v * get(z3, j);
        b0 += w * get(z0, j); b1 += w * get(z1, j); b2 += w * get(z2, j); b3 += w * get(z3, j);
      }
      // parts along the later reflector's vector, and along the earlier one's of what that leaves; only once for a row that is there twice
      a0 *= bl; a1 *= rows > 1 ? bl : 0; a2 *= rows > 2 ? bl : 0; a3 *= rows > 3 ? bl : 0;
      b0 = bf * (b0 - both * a0); b1 = rows > 1 ? bf * (b1 - both * a1) : 0; b2 = rows > 2 ? bf * (b2 - both * a2) : 0; b3 = rows > 3 ? bf * (b3 - both * a3) : 0;
      const p0 = f64x2.splat(a0), p1 = f64x2.splat(a1), p2 = f64x2.splat(a2), p3 = f64x2.splat(a3);
      const q0 = f64x2.splat(b0), q1 = f64x2.splat(b1), q2 = f64x2.splat(b2), q3 = f64x2.splat(b3);
      for (j = k; j + 1 < n; j += 2) {
        const v = v128.load(at(last, j)), w = v128.load(at(first, j));
        v128.store(at(z0, j), minus(minus(v128.load(at(z0, j)), p0, v), q0, w));
        v128.store(at(z1, j), minus(minus(v128.load(at(z1, j)), p1, v), q1, w));
        v128.store(at(z2, j), minus(minus(v128.load(at(z2, j)), p2, v), q2, w));
        v128.store(at(z3, j), minus(minus(v128.load(at(z3, j)), p3, v), q3, w));
      }
      if (j < n) {
        const v = get(last, j), w = get(first, j);
        set(z0, j, get(z0, j) - a0 * v - b0 * w); set(z1, j, get(z1, j) - a1 * v - b1 * w);
        set(z2, j, get(z2, j) - a2 * v - b2 * w); set(z3, j, get(z3, j) - a3 * v - b3 * w);
      }
    }
    if (k < 0) continue;
    for (let r = 0; r < rows; r++) {
      const z = at(z0, r * n), v = at(V, 0), f = get(beta, 0) * dot(at(v, 1), at(z, 1), n - 1);
      for (let j = 1; j < n; j++) set(z, j, get(z, j) - f * get(v, j));
    }
  }
}
