/** The compiled twin of the heavy loops (explorer/kernel/kernel.ts): the same answers, faster; null where a browser has none of it. */

import bytes from "../../kernel/build/kernel.wasm";

interface Exports {
  readonly memory: WebAssembly.Memory;
  timesTransposed(a: number, b: number, out: number, m: number, n: number, k: number, symmetric: number): void;
  cholesky(A: number, n: number): void;
  forwardSolve(L: number, X: number, r: number, s: number): void;
  tridiagonal(A: number, V: number, d: number, e: number, beta: number, v: number, w: number, n: number): void;
  eigen(A: number, V: number, Q: number, d: number, e: number, beta: number, v: number, w: number, cs: number, sweeps: number, n: number): void;
}

/** The kernel has no data of its own beyond this place. */
const START = 1024;

let loaded: Exports | null | undefined, wanted = true;

/** Whether the compiled loops may be used; the plain ones are the judge of them. */
export function useKernel(yes: boolean): void {
  wanted = yes;
}

export function kernel(): Exports | null {
  if (loaded === undefined) {
    try {
      loaded = new WebAssembly.Instance(new WebAssembly.Module(bytes)).exports as unknown as Exports;
    } catch {
      loaded = null;
    }
  }
  return wanted ? loaded : null;
}

/** Places for arrays of these lengths, one after another in the kernel's memory, and views of them. */
export function room(k: Exports, ...lengths: readonly number[]): { readonly places: number[]; readonly views: Float64Array[] } {
  let end = START;
  const places = lengths.map((length) => {
    const place = end;
    end = (end + 8 * length + 15) & ~15;
    return place;
  });
  const missing = end - k.memory.buffer.byteLength;
  if (missing > 0) k.memory.grow(Math.ceil(missing / 65536));
  return { places, views: lengths.map((length, i) => new Float64Array(k.memory.buffer, places[i]!, length)) };
}
