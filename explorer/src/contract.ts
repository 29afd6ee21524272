/** What `ddssp report` writes into the page: see src/ddssp/report/contract.py, which is the other half of this file. */

export type Level = string | number | boolean;

export interface Block {
  readonly column: string | null;
  readonly rows: number;
  readonly labels: readonly string[];
  readonly centre: number;
  readonly half: number;
  readonly contrast: "none" | "first" | "mean";
  /** One number per record. */
  readonly scalar: boolean;
  /** A centred one-hot block, whose second moments follow from its histogram. */
  readonly table: boolean;
  /** How much of the noise of n̂ enters its diagonal; with `known`, z² itself. */
  readonly share: number;
  /** Whether z² is the same for every record. */
  readonly known: boolean;
  /** z of each level, one list per row; null for a number. */
  readonly z: readonly (readonly number[])[] | null;
}

export interface Column {
  readonly name: string;
  readonly kind: "numeric" | "ordinal" | "categorical" | "boolean";
  readonly labels: readonly string[];
  readonly low: number | null;
  readonly high: number | null;
  /** Edges of its bins, where it is a number that has them. */
  readonly edges: readonly number[] | null;
  readonly derived: { readonly function: "log1p" | "square" | "interaction"; readonly of: readonly string[] } | null;
}

export interface Distribution {
  readonly column: string;
  /** Bars of levels or bins, with the standard error that the noise gives each share. */
  readonly bars: readonly { readonly label: string; readonly share: number; readonly error: number | null }[] | null;
  readonly mean: number | null;
  readonly meanError: number | null;
  readonly spread: number | null;
  readonly spreadError: number | null;
}

export interface Pair {
  readonly left: string;
  readonly right: string;
  readonly value: number;
  readonly error: number | null;
}

export interface Spending {
  readonly label: string;
  readonly columns: readonly string[];
  readonly share: number;
  readonly sigma: number | null;
  readonly kind: string;
}

export interface About {
  readonly name: string;
  readonly unit: string;
  readonly mechanism: string;
  readonly private: boolean;
  readonly epsilon: number;
  readonly delta: number;
  readonly rho: number;
  readonly neighbours: string;
  /** The column that names a person and how many of a person's records count, where people are protected. */
  readonly contribution: { readonly column: string; readonly rows: number } | null;
  readonly target: string | null;
  readonly link: string | null;
  readonly provenance: Readonly<Record<string, string>>;
  readonly ledger: Readonly<Record<string, Level>> | null;
  readonly records: number | null;
  readonly recordsError: number | null;
  readonly file: string;
  readonly sha256: string;
}

/** The fit that a task release holds ready. */
export interface Ready {
  readonly model: "linear" | "logistic";
  readonly target: string;
  readonly coefficients: Readonly<Record<string, number>>;
  readonly why: string;
}

export interface Contract {
  readonly format: 1;
  readonly about: About;
  readonly columns: readonly Column[];
  readonly blocks: readonly Block[];
  /** Upper half of Z'Z row by row, little-endian float64 in base64; null where the release did not measure all of it. */
  readonly moments: string | null;
  /** σ² of each pair of blocks, the intercept first; null where the error is not known. */
  readonly noise: readonly (readonly number[])[] | null;
  /** Least σ of the measurements behind estimated tables. */
  readonly sigma: number | null;
  readonly whyNoMoments: string | null;
  readonly whyNoIntervals: string | null;
  readonly ready: Ready | null;
  readonly distributions: readonly Distribution[];
  readonly association: readonly Pair[];
  readonly spending: readonly Spending[];
  readonly preview: readonly { readonly epsilon: number; readonly rho: number }[];
}

/** What `ddssp release --dry-run --report` writes: what to expect, from the schema and a stated number of records alone. */
export interface Expectation {
  readonly format: 1;
  readonly kind: "expectation";
  readonly name: string;
  readonly unit: string;
  readonly records: number;
  readonly delta: number;
  readonly epsilon: number;
  /** The column that is explained here: the declared target, or a number where that has levels without an order. */
  readonly target: string;
  readonly declared: string | null;
  readonly mechanism: string;
  readonly columns: number;
  readonly rows: readonly {
    readonly epsilon: number;
    readonly total: number | null;
    readonly sampling: number | null;
    readonly identified: number;
    readonly of: number;
    readonly correlation: number;
  }[];
}

/** A number per column. Names may be those of what every object has (`constructor`, `__proto__`): read with `numberOf`, built with `fromEntries` or `{ [name]: … }`. */
export type ByColumn = Readonly<Record<string, number>>;

export function numberOf(values: ByColumn, column: string): number | undefined {
  return Object.hasOwn(values, column) ? values[column] : undefined;
}

/** The symmetric matrix of an upper half in base64. */
export function symmetric(text: string, size: number): Float64Array {
  const bytes = Uint8Array.from(atob(text), (ch) => ch.charCodeAt(0));
  const view = new DataView(bytes.buffer), out = new Float64Array(size * size);
  for (let i = 0, at = 0; i < size; i++) {
    for (let j = i; j < size; j++, at += 8) out[i * size + j] = out[j * size + i] = view.getFloat64(at, true);
  }
  return out;
}
