/** What is being asked, and its way into the address and back. */

import { numberOf, type ByColumn, type Column, type Contract } from "../contract";
import { modelsFor, type Model, type Person } from "../fit/fit";

export interface State {
  readonly model: Model;
  readonly target: string;
  readonly level: number;
  readonly features: readonly string[];
  readonly intercept: boolean;
  readonly references: ByColumn;
  readonly confidence: number;
  readonly person: Person;
}

/** Columns that a regression can use. */
export function usable(contract: Contract): readonly string[] {
  return contract.blocks.flatMap((b) => (b.column === null ? [] : [b.column]));
}

export function columnOf(contract: Contract, name: string): Column {
  return contract.columns.find((c) => c.name === name)!;
}

export function models(contract: Contract, target: string): readonly Model[] {
  return modelsFor(contract.blocks.find((b) => b.column === target), columnOf(contract, target));
}

export function initial(contract: Contract): State {
  const names = usable(contract), wanted = contract.about.target;
  const target = wanted !== null && names.includes(wanted) ? wanted : names.find((n) => models(contract, n).includes("linear")) ?? names.find((n) => models(contract, n).length) ?? names[0]!;
  return retargeted(contract, {
    model: "linear", target, level: 0, features: [], intercept: true, references: {}, confidence: 0.95, person: middle(contract),
  }, target);
}

/** The same question about another column, on all others. */
export function retargeted(contract: Contract, state: State, target: string): State {
  const able = models(contract, target);
  return {
    ...state, target, model: able.includes(state.model) ? state.model : able[0] ?? "linear", level: 0,
    features: usable(contract).filter((n) => n !== target),
  };
}

/** The most common level of each column that is measured against one. */
export function commonLevels(contract: Contract): ByColumn {
  const against = new Set(contract.blocks.filter((b) => b.contrast === "first" && b.table).map((b) => b.column));
  return Object.fromEntries(contract.distributions.filter((d) => against.has(d.column)).map((d) => {
    const shares = d.bars?.map((b) => b.share) ?? [];
    return [d.column, shares.indexOf(Math.max(...shares))];
  }));
}

/** Numbers in the middle of their range, levels at their first. */
function middle(contract: Contract): Person {
  return Object.fromEntries(contract.columns.map((c) => [c.name, c.kind === "numeric" ? (c.low! + c.high!) / 2 : 0]));
}

export function written(contract: Contract, state: State): string {
  const out = new URLSearchParams({ model: state.model, target: state.target }), start = initial(contract);
  if (state.level) out.set("of", String(state.level));
  const all = usable(contract).filter((n) => n !== state.target);
  if (state.features.length !== all.length) for (const f of state.features.length ? state.features : [""]) out.append("feature", f);
  if (!state.intercept) out.set("intercept", "no");
  if (state.confidence !== start.confidence) out.set("confidence", String(state.confidence));
  for (const [column, level] of Object.entries(state.references)) if (level) out.set(`against.${column}`, String(level));
  for (const [column, value] of Object.entries(state.person)) if (value !== numberOf(start.person, column)) out.set(`at.${column}`, String(value));
  return out.toString();
}

/** The state in a fragment; whatever it says that this release does not have is left out. */
export function parsed(contract: Contract, fragment: string): State {
  const given = new URLSearchParams(fragment.replace(/^#/, "")), start = initial(contract), names = usable(contract);
  const target = given.get("target");
  let state = target !== null && names.includes(target) && models(contract, target).length ? retargeted(contract, start, target) : start;
  const model = given.get("model") as Model | null;
  if (model && models(contract, state.target).includes(model)) state = { ...state, model };
  if (given.has("feature")) {
    const wanted = new Set(given.getAll("feature"));
    state = { ...state, features: names.filter((n) => n !== state.target && wanted.has(n)) };
  }
  const confidence = Number(given.get("confidence")), of = Number(given.get("of"));
  const references = new Map<string, number>(), person = new Map(Object.entries(state.person));
  for (const c of contract.columns) {
    const against = Number(given.get(`against.${c.name}`)), at = given.get(`at.${c.name}`);
    if (Number.isInteger(against) && against > 0 && against < c.labels.length) references.set(c.name, against);
    if (at !== null && Number.isFinite(Number(at))) person.set(c.name, within(c, Number(at)));
  }
  return {
    ...state, references: Object.fromEntries(references), person: Object.fromEntries(person),
    level: Number.isInteger(of) && of > 0 && of < columnOf(contract, state.target).labels.length ? of : 0,
    intercept: given.get("intercept") !== "no",
    confidence: confidence > 0 && confidence < 1 ? confidence : state.confidence,
  };
}

/** A value that the column can take. */
export function within(c: Column, value: number): number {
  if (c.kind === "numeric") return Math.min(Math.max(value, c.low!), c.high!);
  return Math.min(Math.max(Math.round(value), 0), c.labels.length - 1);
}

/** A record with its derived columns worked out from their sources. */
export function completed(contract: Contract, person: Person): Person {
  const out = new Map(Object.entries(person)), by = new Map(contract.columns.map((c) => [c.name, c]));
  for (const c of contract.columns) {
    if (!c.derived) continue;
    const [a, b] = c.derived.of.map((name) => numberOf(person, name) ?? 0), second = by.get(c.derived.of[1] ?? "");
    if (c.derived.function === "log1p") out.set(c.name, Math.log1p(a!));
    else if (c.derived.function === "square") out.set(c.name, a! * a!);
    else out.set(c.name, c.kind === "numeric" ? a! * b! : a! * (second?.labels.length ?? 1) + b!);
  }
  return Object.fromEntries(out);
}
