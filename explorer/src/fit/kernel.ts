/** The compiled twin of the heavy loops (explorer/kernel/kernel.ts): the same answers, faster; null where a browser has none of it. */

import fused from "../../kernel/build/fused.wasm";
import bytes from "../../kernel/build/kernel.wasm";

interface Exports {
  readonly memory: WebAssembly.Memory;
  timesTransposed(a: number, b: number, out: number, m: number, n: number, k: number, symmetric: number): void;
  timesVector(a: number, x: number, out: number, m: number, n: number): void;
  combined(x: number, f: number, y: number, g: number, out: number, n: number): void;
  plusTimes(y: number, f: number, x: number, n: number): void;
  plusOuter(M: number, x: number, y: number, n: number): void;
  timesRow(M: number, from: number, to: number, f: number, n: number): void;
  cholesky(A: number, n: number): void;
  forwardSolve(L: number, X: number, r: number, s: number, symmetric: number): void;
  forms(X: number, C: number, out: number, r: number, s: number): void;
  tridiagonal(A: number, V: number, d: number, e: number, beta: number, v: number, w: number, n: number): void;
  eigenvalues(d: number, e: number, n: number): void;
  eigenvectors(d: number, e: number, values: number, ends: number, count: number, Z: number, room: number, n: number, size: number): number;
  reflected(V: number, beta: number, Z: number, count: number, n: number, room: number): void;
}

/** The kernel has no data of its own beyond this place. */
const START = 1024;

let loaded: Exports | null | undefined, wanted = true, end: number | null = null;

/** Whether the compiled loops may be used; the plain ones are the judge of them. */
export function useKernel(yes: boolean): void {
  wanted = yes;
}

function kernel(): Exports | null {
  if (loaded === undefined) loaded = instance(fused) ?? instance(bytes);
  return wanted ? loaded : null;
}

/** The loops of a module; null where the browser does not know its instructions. */
function instance(code: Uint8Array<ArrayBuffer>): Exports | null {
  return WebAssembly.validate(code) ? (new WebAssembly.Instance(new WebAssembly.Module(code)).exports as unknown as Exports) : null;
}

/** What `work` returns; arrays that it makes by `floats` are in the kernel's memory and gone afterwards.
 *
 * There is room for this many numbers; further ones are ordinary arrays, which the plain loops take.
 */
export function inKernel<T>(numbers: number, work: () => T): T {
  const fast = kernel();
  if (fast === null || end !== null) return work();
  const missing = START + 8 * numbers - fast.memory.buffer.byteLength;
  try {
    if (missing > 0) fast.memory.grow(Math.ceil(missing / 65536));
  } catch {
    return work();
  }
  end = START;
  try {
    return work();
  } finally {
    end = null;
  }
}

/** n zeros; with `raw`, n numbers that are about to be overwritten. */
export function floats(n: number, raw = false): Float64Array {
  if (end === null || loaded == null) return new Float64Array(n);
  const place = end, next = (end + 8 * n + 15) & ~15, memory = loaded.memory.buffer;
  if (next > memory.byteLength) return new Float64Array(n);
  end = next;
  const out = new Float64Array(memory, place, n);
  return raw ? out : out.fill(0);
}

/** What `work` returns, a number or an ordinary array; the arrays that it makes are gone afterwards. */
export function scratch<T>(work: () => T): T {
  const before = end, out = work();
  end = before;
  return out;
}

/** The compiled loops, if all of these arrays are where those can reach them. */
export function compiled(...arrays: readonly Float64Array[]): Exports | null {
  if (end === null || loaded == null) return null;
  const memory = loaded.memory.buffer;
  return arrays.every((a) => a.buffer === memory) ? loaded : null;
}
