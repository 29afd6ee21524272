/** The heavy loops of a fit in WebAssembly, two numbers at a time; each has a plain twin in ../src/fit, which is its judge. */

// @ts-nocheck: AssemblyScript, not TypeScript: usize, v128 and load<f64> are its own

@inline function at(p: usize, i: i32): usize { return p + (<usize>i << 3); }
@inline function get(p: usize, i: i32): f64 { return load<f64>(p + (<usize>i << 3)); }
@inline function set(p: usize, i: i32, x: f64): void { store<f64>(p + (<usize>i << 3), x); }
@inline function sum2(x: v128): f64 { return f64x2.extract_lane(x, 0) + f64x2.extract_lane(x, 1); }

/** out = a b', "m n", for a "m k" and b "n k"; k even (rows padded by a zero), m and n even. */
export function timesTransposed(a: usize, b: usize, out: usize, m: i32, n: i32, k: i32, symmetric: bool): void {
  const step: usize = <usize>k << 3;
  for (let i = 0; i < m; i += 2) {
    const a0 = a + <usize>i * step, a1 = a0 + step;
    const last = symmetric ? min(i + 2, n) : n;
    let j = 0;
    for (; j + 3 < last; j += 4) {
      const b0 = b + <usize>j * step, b1 = b0 + step, b2 = b1 + step, b3 = b2 + step;
      let c00 = f64x2.splat(0), c01 = c00, c02 = c00, c03 = c00, c10 = c00, c11 = c00, c12 = c00, c13 = c00;
      for (let l: usize = 0; l < step; l += 16) {
        const p = v128.load(a0 + l), q = v128.load(a1 + l);
        let x = v128.load(b0 + l);
        c00 = f64x2.add(c00, f64x2.mul(p, x));
        c10 = f64x2.add(c10, f64x2.mul(q, x));
        x = v128.load(b1 + l);
        c01 = f64x2.add(c01, f64x2.mul(p, x));
        c11 = f64x2.add(c11, f64x2.mul(q, x));
        x = v128.load(b2 + l);
        c02 = f64x2.add(c02, f64x2.mul(p, x));
        c12 = f64x2.add(c12, f64x2.mul(q, x));
        x = v128.load(b3 + l);
        c03 = f64x2.add(c03, f64x2.mul(p, x));
        c13 = f64x2.add(c13, f64x2.mul(q, x));
      }
      const o = at(out, i * n + j), o1 = at(o, n);
      store<f64>(o, sum2(c00)); store<f64>(o, sum2(c01), 8); store<f64>(o, sum2(c02), 16); store<f64>(o, sum2(c03), 24);
      store<f64>(o1, sum2(c10)); store<f64>(o1, sum2(c11), 8); store<f64>(o1, sum2(c12), 16); store<f64>(o1, sum2(c13), 24);
    }
    for (; j < last; j++) {
      const b0 = b + <usize>j * step;
      let c0 = f64x2.splat(0), c1 = c0;
      for (let l: usize = 0; l < step; l += 16) {
        const x = v128.load(b0 + l);
        c0 = f64x2.add(c0, f64x2.mul(v128.load(a0 + l), x));
        c1 = f64x2.add(c1, f64x2.mul(v128.load(a1 + l), x));
      }
      set(out, i * n + j, sum2(c0));
      set(out, (i + 1) * n + j, sum2(c1));
    }
  }
}

/** Lower L with LL' = A, in place, zeros above; a pivot that rounding made negative is raised to a trace of the largest. */
export function cholesky(A: usize, n: i32): void {
  let largest: f64 = 0;
  for (let i = 0; i < n; i++) largest = max(largest, get(A, i * n + i));
  for (let i = 0; i < n; i++) {
    const x = at(A, i * n);
    for (let j = 0; j <= i; j++) {
      const y = at(A, j * n);
      let t = f64x2.splat(0), l = 0;
      for (; l + 1 < j; l += 2) t = f64x2.add(t, f64x2.mul(v128.load(at(x, l)), v128.load(at(y, l))));
      let sum = get(x, j) - sum2(t);
      if (l < j) sum -= get(x, l) * get(y, l);
      set(x, j, i == j ? Math.sqrt(max(sum, 1e-15 * largest)) : sum / get(y, j));
    }
    for (let j = i + 1; j < n; j++) set(x, j, 0);
  }
}

/** Rows x of X, "r s", solve L x = b for each row b, in place; r a multiple of 4. */
export function forwardSolve(L: usize, X: usize, r: i32, s: i32): void {
  for (let row = 0; row < r; row += 4) {
    const x0 = at(X, row * s), x1 = at(x0, s), x2 = at(x1, s), x3 = at(x2, s);
    for (let i = 0; i < s; i++) {
      const l = at(L, i * s);
      let t0 = f64x2.splat(0), t1 = t0, t2 = t0, t3 = t0;
      let j = 0;
      for (; j + 1 < i; j += 2) {
        const f = v128.load(at(l, j));
        t0 = f64x2.add(t0, f64x2.mul(f, v128.load(at(x0, j))));
        t1 = f64x2.add(t1, f64x2.mul(f, v128.load(at(x1, j))));
        t2 = f64x2.add(t2, f64x2.mul(f, v128.load(at(x2, j))));
        t3 = f64x2.add(t3, f64x2.mul(f, v128.load(at(x3, j))));
      }
      let u0 = sum2(t0), u1 = sum2(t1), u2 = sum2(t2), u3 = sum2(t3);
      if (j < i) {
        const f = get(l, j);
        u0 += f * get(x0, j); u1 += f * get(x1, j); u2 += f * get(x2, j); u3 += f * get(x3, j);
      }
      const d = 1 / get(l, i);
      set(x0, i, (get(x0, i) - u0) * d); set(x1, i, (get(x1, i) - u1) * d);
      set(x2, i, (get(x2, i) - u2) * d); set(x3, i, (get(x3, i) - u3) * d);
    }
  }
}

/** A → tridiagonal d, e; rows of V are the reflectors' vectors, beta their factors; v and w are room for n numbers. */
export function tridiagonal(A: usize, V: usize, d: usize, e: usize, beta: usize, v: usize, w: usize, n: i32): void {
  for (let k = 0; k < n; k++) {
    const row = at(A, k * n);
    set(d, k, get(row, k));
    set(e, k, 0);
    set(beta, k, 0);
    if (k + 1 == n) break;
    let tail: f64 = 0;
    for (let j = k + 2; j < n; j++) tail += get(row, j) * get(row, j);
    const head = get(row, k + 1);
    if (tail == 0) {
      set(e, k, head);
      continue;
    }
    const norm = Math.sqrt(head * head + tail), alpha = head > 0 ? -norm : norm;
    set(e, k, alpha);
    for (let j = k + 1; j < n; j++) set(v, j, get(row, j));
    set(v, k + 1, head - alpha);
    memory.copy(at(V, k * n + k + 1), at(v, k + 1), <usize>(n - k - 1) << 3);
    const b = 1 / (norm * (norm + Math.abs(head)));
    set(beta, k, b);
    timesUpper(A, n, k + 1, v, w);
    let vw: f64 = 0;
    for (let j = k + 1; j < n; j++) {
      const x = get(w, j) * b;
      set(w, j, x);
      vw += get(v, j) * x;
    }
    const half = b * vw / 2;
    for (let j = k + 1; j < n; j++) set(w, j, get(w, j) - half * get(v, j));
    for (let i = k + 1; i < n; i++) {
      const vi = f64x2.splat(get(v, i)), wi = f64x2.splat(get(w, i)), own = at(A, i * n);
      let j = i;
      for (; j + 1 < n; j += 2) {
        const moved = f64x2.add(f64x2.mul(vi, v128.load(at(w, j))), f64x2.mul(wi, v128.load(at(v, j))));
        v128.store(at(own, j), f64x2.sub(v128.load(at(own, j)), moved));
      }
      if (j < n) set(own, j, get(own, j) - (get(v, i) * get(w, j) + get(w, i) * get(v, j)));
    }
  }
}

/** w = A v from row and column `from` on, A by its upper half; two rows at a time. */
function timesUpper(A: usize, n: i32, from: i32, v: usize, w: usize): void {
  for (let i = from; i < n; i++) set(w, i, 0);
  let i = from;
  for (; i + 1 < n; i += 2) {
    const row = at(A, i * n), next = at(row, n), x = get(v, i), y = get(v, i + 1);
    const xx = f64x2.splat(x), yy = f64x2.splat(y);
    let s = f64x2.splat(0), t = s, j = i + 2;
    for (; j + 1 < n; j += 2) {
      const p = v128.load(at(row, j)), q = v128.load(at(next, j)), z = v128.load(at(v, j));
      s = f64x2.add(s, f64x2.mul(p, z));
      t = f64x2.add(t, f64x2.mul(q, z));
      v128.store(at(w, j), f64x2.add(v128.load(at(w, j)), f64x2.add(f64x2.mul(p, xx), f64x2.mul(q, yy))));
    }
    let a = sum2(s) + get(row, i) * x + get(row, i + 1) * y, b = sum2(t) + get(row, i + 1) * x + get(next, i + 1) * y;
    if (j < n) {
      a += get(row, j) * get(v, j);
      b += get(next, j) * get(v, j);
      set(w, j, get(w, j) + get(row, j) * x + get(next, j) * y);
    }
    set(w, i, get(w, i) + a);
    set(w, i + 1, get(w, i + 1) + b);
  }
  if (i < n) set(w, i, get(w, i) + get(A, i * n + i) * get(v, i));
}

/** Q' of the reflectors, "n n": Q is their product, and Q' is made by its rows. */
function orthogonal(V: usize, beta: usize, Q: usize, n: i32): void {
  memory.fill(Q, 0, <usize>(n * n) << 3);
  for (let i = 0; i < n; i++) set(Q, i * n + i, 1);
  for (let k = n - 3; k >= 0; k--) {
    const b = get(beta, k);
    if (b == 0) continue;
    const v = at(V, k * n);
    // column i of Q (row i of Q') less b v (v'q)
    let i = k + 1;
    for (; i + 1 < n; i += 2) {
      const q = at(Q, i * n), r = at(q, n);
      let s = f64x2.splat(0), t = s, j = k + 1;
      for (; j + 1 < n; j += 2) {
        const z = v128.load(at(v, j));
        s = f64x2.add(s, f64x2.mul(z, v128.load(at(q, j))));
        t = f64x2.add(t, f64x2.mul(z, v128.load(at(r, j))));
      }
      let x = sum2(s), y = sum2(t);
      if (j < n) {
        x += get(v, j) * get(q, j);
        y += get(v, j) * get(r, j);
      }
      x *= b;
      y *= b;
      const xx = f64x2.splat(x), yy = f64x2.splat(y);
      for (j = k + 1; j + 1 < n; j += 2) {
        const z = v128.load(at(v, j));
        v128.store(at(q, j), f64x2.sub(v128.load(at(q, j)), f64x2.mul(xx, z)));
        v128.store(at(r, j), f64x2.sub(v128.load(at(r, j)), f64x2.mul(yy, z)));
      }
      if (j < n) {
        set(q, j, get(q, j) - x * get(v, j));
        set(r, j, get(r, j) - y * get(v, j));
      }
    }
    for (; i < n; i++) {
      const q = at(Q, i * n);
      let x: f64 = 0;
      for (let j = k + 1; j < n; j++) x += get(v, j) * get(q, j);
      x *= b;
      for (let j = k + 1; j < n; j++) set(q, j, get(q, j) - x * get(v, j));
    }
  }
}

/** Rotations of rows i + 1 and i of Q', sweep by sweep, on eight columns at a time. */
function rotate(Q: usize, n: i32, cs: usize, sweeps: usize, count: i32): void {
  let k = 0;
  for (; k + 7 < n; k += 8) {
    for (let m = 0; m < count; m++) {
      const from = load<i32>(sweeps + (<usize>m * 12)), start = load<i32>(sweeps + (<usize>m * 12), 4), stop = load<i32>(sweeps + (<usize>m * 12), 8);
      let p = at(Q, (from + 1) * n + k);
      let a = v128.load(p), b = v128.load(p, 16), c = v128.load(p, 32), d = v128.load(p, 48);
      const step: usize = <usize>n << 3;
      for (let r = start; r < stop; r++) {
        const cos = v128.load64_splat(cs + (<usize>r << 4)), sin = v128.load64_splat(cs + (<usize>r << 4), 8), q = p - step;
        let x = v128.load(q);
        v128.store(p, f64x2.add(f64x2.mul(sin, x), f64x2.mul(cos, a)));
        a = f64x2.sub(f64x2.mul(cos, x), f64x2.mul(sin, a));
        x = v128.load(q, 16);
        v128.store(p, f64x2.add(f64x2.mul(sin, x), f64x2.mul(cos, b)), 16);
        b = f64x2.sub(f64x2.mul(cos, x), f64x2.mul(sin, b));
        x = v128.load(q, 32);
        v128.store(p, f64x2.add(f64x2.mul(sin, x), f64x2.mul(cos, c)), 32);
        c = f64x2.sub(f64x2.mul(cos, x), f64x2.mul(sin, c));
        x = v128.load(q, 48);
        v128.store(p, f64x2.add(f64x2.mul(sin, x), f64x2.mul(cos, d)), 48);
        d = f64x2.sub(f64x2.mul(cos, x), f64x2.mul(sin, d));
        p = q;
      }
      v128.store(p, a); v128.store(p, b, 16); v128.store(p, c, 32); v128.store(p, d, 48);
    }
  }
  for (; k < n; k++) {
    for (let m = 0; m < count; m++) {
      const from = load<i32>(sweeps + (<usize>m * 12)), start = load<i32>(sweeps + (<usize>m * 12), 4), stop = load<i32>(sweeps + (<usize>m * 12), 8);
      let i = from, a = get(Q, (i + 1) * n + k);
      for (let r = start; r < stop; r++, i--) {
        const cos = load<f64>(cs + (<usize>r << 4)), sin = load<f64>(cs + (<usize>r << 4), 8), x = get(Q, i * n + k);
        set(Q, (i + 1) * n + k, sin * x + cos * a);
        a = cos * x - sin * a;
      }
      set(Q, (i + 1) * n + k, a);
    }
  }
}

const BATCH = 16;

/** Eigenvalues of A into d, eigenvectors as rows of Q; room: V "n n", e, beta, v, w "n", cs "2·16·n", sweeps 3·16 i32. */
export function eigen(
  A: usize, V: usize, Q: usize, d: usize, e: usize, beta: usize, v: usize, w: usize, cs: usize, sweeps: usize, n: i32,
): void {
  tridiagonal(A, V, d, e, beta, v, w, n);
  orthogonal(V, beta, Q, n);
  let count = 0, used = 0;
  for (let l = 0; l < n; l++) {
    for (let turn = 0; turn < 60; turn++) {
      let m = l;
      for (; m < n - 1; m++) {
        const size = Math.abs(get(d, m)) + Math.abs(get(d, m + 1));
        if (Math.abs(get(e, m)) + size == size) break;
      }
      if (m == l) break;
      if (count == BATCH) {
        rotate(Q, n, cs, sweeps, count);
        count = used = 0;
      }
      let g = (get(d, l + 1) - get(d, l)) / (2 * get(e, l)), r = Math.sqrt(g * g + 1);
      g = get(d, m) - get(d, l) + get(e, l) / (g + (g < 0 ? -r : r));
      let s: f64 = 1, c: f64 = 1, p: f64 = 0, broken = false;
      const start = used;
      for (let i = m - 1; i >= l; i--) {
        const f = s * get(e, i), b = c * get(e, i);
        r = Math.sqrt(f * f + g * g);
        set(e, i + 1, r);
        if (r == 0) {
          set(d, i + 1, get(d, i + 1) - p);
          set(e, m, 0);
          broken = true;
          break;
        }
        s = f / r;
        c = g / r;
        g = get(d, i + 1) - p;
        r = (get(d, i) - g) * s + 2 * c * b;
        p = s * r;
        set(d, i + 1, g + p);
        g = c * r - b;
        store<f64>(cs + (<usize>used << 4), c);
        store<f64>(cs + (<usize>used << 4), s, 8);
        used++;
      }
      const here = sweeps + <usize>count * 12;
      store<i32>(here, m - 1);
      store<i32>(here, start, 4);
      store<i32>(here, used, 8);
      count++;
      if (broken) continue;
      set(d, l, get(d, l) - p);
      set(e, l, g);
      set(e, m, 0);
    }
  }
  rotate(Q, n, cs, sweeps, count);
}
