/** The noise of Z'Z: independent Gaussian blocks, mapped linearly into one symmetric matrix N (inference/noise_covariance.py). */

import { Encoding } from "./encoding";
import { floats } from "./kernel";
import { raw, timesRow, timesTransposed, zeros, type Matrix } from "./matrix";

export class BlockNoise {
  private readonly of: Int32Array;

  /** `variance` is "K K": σ² of the block (j, k); on the diagonal σ² of n̂ and of own blocks. */
  constructor(readonly variance: Matrix, readonly encoding: Encoding) {
    this.of = encoding.owners;
  }

  keep(places: readonly number[]): BlockNoise {
    const K = places.length, part = zeros(K, K), old = this.variance;
    places.forEach((i, a) => places.forEach((j, b) => (part.data[a * K + b] = old.data[i * old.cols + j]!)));
    return new BlockNoise(part, this.encoding.keep(places));
  }

  times(factor: number): BlockNoise {
    return new BlockNoise({ ...this.variance, data: this.variance.data.map((v) => v * factor) }, this.encoding);
  }

  /** Variance of each entry of Z'Z, "p p" (inference/psd.py, `_diagonal`). */
  entries(): Matrix {
    const p = this.encoding.size, K = this.variance.cols, out = zeros(p, p), v = this.variance.data, of = this.of;
    for (let i = 0; i < p; i++) for (let j = 0; j < p; j++) out.data[i * p + j] = v[of[i]! * K + of[j]!]!;
    this.encoding.blocks.forEach((b, i) => {
      const { start } = this.encoding.spans[i]!, n = v[0]!, own = v[i * K + i]!, m = b.rows;
      const set = (r: number, c: number, value: number) => (out.data[(start + r) * p + start + c] = value);
      if (b.column === null) set(0, 0, n);
      else if (b.scalar) set(0, 0, b.known ? b.share * b.share * n : own + n / 4);
      else if (!b.table) {
        for (let r = 0; r < m; r++) for (let c = 0; c < m; c++) set(r, c, (own * (r === c ? 2 : 1)) / 2);
      } else {
        const first = v[i]! + n / (m * m), same = (1 - 1 / m) ** 2, other = 1 / (m * m);
        for (let r = 0; r < m; r++) {
          for (let c = 0; c < m; c++) {
            const sum = r === c ? same * same + (m - 1) * other * other : 2 * same * other + (m - 2) * other * other;
            set(r, c, sum * first);
          }
        }
      }
    });
    return out;
  }

  /** P M P in place for symmetric M: rows and columns of one-hot blocks less their means. */
  centre(M: Matrix): Matrix {
    const p = M.cols, X = M.data, mean = new Float64Array(p);
    this.encoding.blocks.forEach((b, i) => {
      if (!b.table) return;
      const { start, stop } = this.encoding.spans[i]!, share = 1 / b.rows;
      mean.fill(0);
      for (let r = start; r < stop; r++) for (let c = 0, at = r * p; c < p; c++, at++) mean[c]! += X[at]!;
      for (let c = 0; c < p; c++) mean[c]! *= share;
      for (let r = start; r < stop; r++) for (let c = 0, at = r * p; c < p; c++, at++) X[at]! -= mean[c]!;
      let all = 0;
      for (let c = start; c < stop; c++) all += mean[c]! * share;
      for (let r = 0; r < p; r++) {
        const less = r < start || r >= stop ? mean[r]! : mean[r]! - all;
        for (let c = start, at = r * p + start; c < stop; c++, at++) X[at]! -= less;
      }
    });
    return M;
  }

  /** P t. */
  centred(t: Float64Array): Float64Array {
    return this.centredRows({ rows: 1, cols: t.length, data: t.slice() }).data;
  }

  /** F P in place. */
  centredRows(F: Matrix): Matrix {
    const p = F.cols, X = F.data;
    this.encoding.blocks.forEach((b, j) => {
      if (!b.table) return;
      const { start, stop } = this.encoding.spans[j]!;
      for (let i = 0; i < F.rows; i++) {
        let mean = 0;
        for (let at = i * p + start; at < i * p + stop; at++) mean += X[at]! / b.rows;
        for (let at = i * p + start; at < i * p + stop; at++) X[at]! -= mean;
      }
    });
    return F;
  }

  /** E[N M N] for symmetric M = P M P, which it overwrites, "p p".
   *
   * Of a one-hot block with first moments of variance σ² its own rows get σ² P (diag(2 M_0j + diag M_jj) − M_jj/m) P.
   */
  covarianceOfCentred(M: Matrix): Matrix {
    const p = M.cols, K = this.variance.cols, v = this.variance.data, of = this.of, { blocks, spans } = this.encoding;
    const X = M.data, first = X.slice(0, p), diagonal = new Float64Array(p), traces = new Float64Array(K), level = new Float64Array(K);
    for (let i = 0; i < p; i++) traces[of[i]!]! += diagonal[i] = X[i * p + i]!;
    for (let j = 0; j < K; j++) for (let k = 0; k < K; k++) if (j !== k) level[j]! += v[j * K + k]! * traces[k]!;
    this.scale(M);
    blocks.forEach((b, i) => {
      const { start, stop } = spans[i]!, m = b.rows, sigma2 = v[i]!;
      if (!b.table) {
        const more = level[i]! + (i === 0 ? 0 : (v[i * K + i]! / 2) * traces[i]!);
        for (let r = start; r < stop; r++) X[r * p + r]! += more;
        return;
      }
      const w = Float64Array.from({ length: m }, (_, r) => level[i]! + sigma2 * (2 * first[start + r]! + diagonal[start + r]!));
      const mean = w.reduce((sum, x) => sum + x, 0) / m;
      for (let r = 0; r < m; r++) {
        const own = w[r]! - mean, row = (start + r) * p;
        for (let c = 0, at = row + start; c < m; c++, at++) X[at]! -= (own + w[c]!) / m;
        X[row + start + r]! += w[r]!;
        X[row]! += sigma2 * (diagonal[start + r]! - traces[i]! / m);
        X[start + r] = X[row]!;
      }
    });
    return M;
  }

  /** F E[N tt' N] F' for F = F P, "s p", and t = P t.
   *
   * tt' times one number for each pair of blocks has the rank of their number K, and the rest of the covariance is diagonal
   * next to F: a product of s × (p + K + 2) numbers instead of two of p × p.
   */
  sandwichOfOuter(F: Matrix, t: Float64Array, out = raw(F.rows, F.rows)): Matrix {
    const s = F.rows, p = F.cols, K = this.variance.cols, v = this.variance.data, { blocks, spans } = this.encoding;
    const wide = p + K + 2, left = raw(s, wide), right = raw(s, wide), traces = new Float64Array(K), diagonal = new Float64Array(p);
    for (let r = 0; r < p; r++) traces[this.of[r]!]! += t[r]! * t[r]!;
    const sigma2 = Float64Array.from(blocks, (b, j) => (b.table ? v[j]! : 0));
    blocks.forEach((b, j) => {
      let level = 0;
      for (let k = 0; k < K; k++) if (k !== j) level += v[j * K + k]! * traces[k]!;
      if (!b.table && j > 0) level += (v[j * K + j]! / 2) * traces[j]!;
      for (let r = spans[j]!.start; r < spans[j]!.stop; r++) diagonal[r] = level + sigma2[j]! * t[r]! * (2 * t[0]! + t[r]!);
    });
    const factors = Float64Array.from({ length: K * K }, (_, i) => this.factor(Math.floor(i / K), i % K));
    const X = F.data, Y = left.data, Z = right.data, of = this.of, z = new Float64Array(K);
    for (let i = 0, from = 0, to = 0; i < s; i++, from += p, to += wide) {
      let y = 0;
      z.fill(0);
      for (let r = 0; r < p; r++) {
        const f = X[from + r]!, j = of[r]!, ft = f * t[r]!;
        Z[to + r] = f;
        Y[to + r] = f * diagonal[r]!;
        z[j]! += ft;
        y += sigma2[j]! * ft * t[r]!;
      }
      for (let j = 0; j < K; j++) {
        let sum = 0;
        for (let k = 0; k < K; k++) sum += factors[j * K + k]! * z[k]!;
        Y[to + p + j] = sum;
        Z[to + p + j] = z[j]!;
      }
      Y[to + p + K] = Z[to + p + K + 1] = y;
      Y[to + p + K + 1] = Z[to + p + K] = X[from]!;
    }
    return timesTransposed(left, right, true, out);
  }

  /** What M of the blocks j and k is multiplied by in E[N M N]. */
  private factor(j: number, k: number): number {
    const K = this.variance.cols, v = this.variance.data, b = this.encoding.blocks[j]!;
    const pair = j !== k ? v[j * K + k]! : j === 0 ? 0 : b.table ? -v[j]! / b.rows : v[j * K + j]! / 2;
    return pair + v[0]! * b.share * this.encoding.blocks[k]!.share;
  }

  /** Times `factor`, entry by entry. */
  private scale(M: Matrix): void {
    const { spans } = this.encoding, row = floats(M.cols, true);
    spans.forEach(({ start, stop }, j) => {
      spans.forEach((other, k) => row.fill(this.factor(j, k), other.start, other.stop));
      timesRow(M, start, stop, row);
    });
  }

  /** E[N tr QN] for symmetric Q, which it overwrites: tr(Q'·) of it is the covariance of tr QN and tr Q'N, "p p". */
  response(Q: Matrix): Matrix {
    const p = Q.cols, K = this.variance.cols, v = this.variance.data, of = this.of, { blocks, spans } = this.encoding;
    const X = this.centre(Q).data, out = zeros(p, p), N = out.data;
    let total = 0;
    for (let i = 0; i < p; i++) total += blocks[of[i]!]!.share * X[i * p + i]!;
    for (let i = 0; i < p; i++) {
      for (let c = 0; c < p; c++) {
        const j = of[i]!, k = of[c]!;
        N[i * p + c] = j === k ? 0 : 2 * v[j * K + k]! * X[i * p + c]!;
      }
    }
    blocks.forEach((b, i) => {
      const { start, stop } = spans[i]!, m = b.rows, off = b.table ? 1 / m : 0;
      if (i > 0 && b.table) {
        const w = new Float64Array(m), own = new Float64Array(m * m);
        let mean = 0;
        for (let r = 0; r < m; r++) mean += X[(start + r) * (p + 1)]! / m;
        for (let r = 0; r < m; r++) {
          w[r] = v[i]! * (2 * X[start + r]! + X[(start + r) * (p + 1)]! - mean);
          N[start + r] = N[(start + r) * p] = w[r]!;
          own[r * m + r] = w[r]!;
        }
        doublyCentred(own, m);
        for (let r = 0; r < m; r++) for (let c = 0; c < m; c++) N[(start + r) * p + start + c]! += own[r * m + c]!;
      } else if (i > 0) {
        for (let r = start; r < stop; r++) for (let c = start; c < stop; c++) N[r * p + c]! += v[i * K + i]! * X[r * p + c]!;
      }
      const add = v[0]! * total * b.share;
      for (let r = start; r < stop; r++) {
        N[r * p + r]! += add;
        for (let c = start; c < stop; c++) N[r * p + c]! -= add * off;
      }
    });
    return out;
  }

  /** d with σ_jk² ≈ d_i d_l for rows i, l of different blocks, "p". */
  get level(): Float64Array {
    const K = this.variance.cols, v = this.variance.data, out = new Float64Array(this.encoding.size);
    if (K < 3) return out.fill(Math.sqrt(v[K - 1]!));
    const rows = new Float64Array(K);
    for (let j = 0; j < K; j++) for (let k = 0; k < K; k++) if (j !== k) rows[j]! += Math.log(v[j * K + k]!);
    const all = rows.reduce((a, b) => a + b, 0);
    return out.map((_, i) => Math.exp((rows[this.of[i]!]! - all / (2 * K - 2)) / (K - 2)));
  }
}

/** P a P in place, "m m". */
function doublyCentred(a: Float64Array, m: number): void {
  for (let r = 0; r < m; r++) {
    let mean = 0;
    for (let c = 0; c < m; c++) mean += a[r * m + c]!;
    for (let c = 0; c < m; c++) a[r * m + c]! -= mean / m;
  }
  for (let c = 0; c < m; c++) {
    let mean = 0;
    for (let r = 0; r < m; r++) mean += a[r * m + c]!;
    for (let r = 0; r < m; r++) a[r * m + c]! -= mean / m;
  }
}
