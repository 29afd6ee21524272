/** The report: what was released, under which guarantee, what it cost, and what single columns and pairs look like. */

import type { Column, Contract, Distribution, Spending } from "../contract";
import { bars, heatMap, span, spendingBars } from "./charts";
import { fitted, h, number, percent, table } from "./dom";
import { columnOf } from "./state";

export function masthead(c: Contract): HTMLElement {
  const a = c.about, about = a.records === null ? "" : `about ${number(a.records)} ${plural(a.unit)}`;
  return h("header", { class: "masthead" },
    h("p", { class: "eyebrow" }, "Differentially private release"),
    h("h1", {}, a.name),
    !a.private && h("p", { class: "warning", role: "alert" },
      "NOT PRIVATE: the noise of this release is reproducible. It is for experiments and must not be published."),
    h("p", { class: "lead" },
      `One file${about ? ` on ${about}` : ""}, ${c.columns.length} columns. Every table, chart and regression below is computed from it, `,
      "in this page, without the data and at no further cost in privacy."),
    h("dl", { class: "facts" }, ...facts(c).flatMap(([name, value]) => [h("div", {}, h("dt", {}, name), h("dd", {}, value))])));
}

function facts(c: Contract): [string, string][] {
  const a = c.about;
  return [["ε", number(a.epsilon)], ["δ", exponent(a.delta)], ["Protects each", a.unit], ["Mechanism", a.mechanism],
    ["Columns", String(c.columns.length)], ["Records, noisy", a.records === null ? "not measured" : `${number(a.records)}${plusMinus(a.recordsError)}`]];
}

/** 1e-6 as 10⁻⁶, other numbers as they are. */
export function exponent(x: number): string {
  const found = /^1e-(\d+)$/.exec(x.toExponential().replace("e+0", ""));
  return found ? `10⁻${Array.from(found[1]!, (d) => "⁰¹²³⁴⁵⁶⁷⁸⁹"[Number(d)]).join("")}` : number(x);
}

function plural(unit: string): string {
  return /(s|x|ch|sh)$/.test(unit) ? unit : unit === "person" ? "people" : `${unit}s`;
}

export function guarantee(c: Contract): HTMLElement {
  const a = c.about, odds = Math.exp(a.epsilon);
  return section("guarantee", "What is guaranteed",
    h("p", {}, `Whether any one ${a.unit} is in the data or not changes the chance of every possible release by at most a factor of e`,
      h("sup", {}, "ε"), ` = ${number(odds)} (ε = ${number(a.epsilon)}), but for a probability of δ = ${exponent(a.delta)}. `,
      "This holds against any attacker, with any other knowledge, for ever."),
    h("ul", {},
      h("li", {}, `Neighbouring tables: ${a.neighbours}. ${whose(c)}`),
      h("li", {}, `Accounted as ρ = ${number(a.rho)} (zero-concentrated), in exact fractions rounded to the safe side.`),
      h("li", {}, a.ledger === null ? "No ledger entry: nothing in this file says how often the same data was released before." :
        `Ledger entry ${a.ledger["counter"]} of dataset ${a.ledger["dataset"]}, row hash ${a.ledger["hash"]}.`),
      h("li", {}, `Made with ${Object.entries(a.provenance).map(([name, version]) => `${name} ${version}`).join(", ")}.`)),
    h("details", {}, h("summary", {}, "Which file this is"), h("p", {}, "SHA-256 of the release: ", h("code", {}, a.sha256))),
    declared(c));
}

/** Who is behind the records, in a sentence or two. */
function whose(c: Contract): string {
  const { unit, contribution } = c.about;
  if (contribution !== null) return `At most ${contribution.rows} records of each ${contribution.column} count, and all of them together are protected.`;
  return unit === "record" ? "Whoever has several records is protected less." : `One record is one ${unit}; whoever has several is protected less.`;
}

function declared(c: Contract): HTMLElement {
  const rows = c.columns.map((column) => {
    const range = column.kind === "numeric" ? `${number(column.low)} to ${number(column.high)}` : list(column.labels);
    return [column.name, column.kind, column.derived ? `${column.derived.function} of ${column.derived.of.join(" and ")}; ${range}` : range];
  });
  return h("details", {}, h("summary", {}, "What the owner declared: columns, bounds and levels"),
    table("Declared by a person, never read from the rows", ["Column", "Kind", "Bounds or levels"], rows, "Declared columns"));
}

function list(labels: readonly string[], most = 12): string {
  const shown = labels.slice(0, most).map((l) => l || "(empty)").join(", ");
  return labels.length > most ? `${shown} … ${labels.length} in all` : shown;
}

const KINDS: Readonly<Record<string, string>> = {
  total: "Number of records", "one column": "Single columns", squares: "Squares of numbers", pairs: "Pairs of columns", other: "Other questions",
};

export function budget(c: Contract): HTMLElement {
  const sums = new Map<string, number>();
  for (const s of c.spending) sums.set(s.kind, (sums.get(s.kind) ?? 0) + s.share);
  const kinds: Spending[] = [...sums].map(([kind, share]) => ({ label: c.spending.find((s) => s.kind === kind && kind === "other")?.label ?? KINDS[kind] ?? kind, share, sigma: null, kind, columns: [] }));
  kinds.sort((a, b) => b.share - a.share);
  const columns = byColumn(c), top = columns.slice(0, 15);
  return section("budget", "Where the budget went",
    h("p", {}, `Every answer in the file was paid for with part of ρ = ${number(c.about.rho)}. More of it means less noise.`),
    h("div", { class: "two" },
      chart("By kind of question", sentence(kinds), (width) => spendingBars(kinds, width)),
      chart(`By column${columns.length > top.length ? ` (the ${top.length} largest of ${columns.length})` : ""}`, sentence(top), (width) => spendingBars(top, width),
        h("p", { class: "note" }, "The share of a pair counts half for each of its two columns."))),
    h("details", {}, h("summary", {}, `All ${c.spending.length} answers with their noise`),
      table("Share of ρ and standard deviation σ of the noise in each entry", ["Answer", "Share", "σ"],
        c.spending.slice(0, 400).map((s) => [s.label, percent(s.share, 2), number(s.sigma)]), "All answers"),
      c.spending.length > 400 && h("p", { class: "note" }, `The first 400 of ${c.spending.length}.`)));
}

function byColumn(c: Contract): Spending[] {
  const names = c.columns.map((column) => column.name), found = new Map(names.map((n) => [n, 0]));
  for (const s of c.spending) {
    for (const name of s.columns) found.set(name, (found.get(name) ?? 0) + s.share / s.columns.length);
  }
  return [...found].filter(([, share]) => share > 0).map(([label, share]) => ({ label, share, sigma: null, kind: "column", columns: [label] }))
    .sort((a, b) => b.share - a.share);
}

function sentence(rows: readonly Spending[]): string {
  return rows.map((r) => `${r.label} ${percent(r.share)}`).join(", ");
}

export function columnsSection(c: Contract): HTMLElement | null {
  if (!c.distributions.length) return null;
  const many = c.distributions.length > 12, cards = c.distributions.map((d) => card(c, d));
  const rest = cards.slice(12);
  return section("columns", "One column at a time",
    h("p", {}, "Shares of levels with two standard errors of the noise (thin line). For numbers: mean (dot) and one standard deviation to each side, ",
      "within the declared range; their shape is in the release only where it was made from tables."),
    h("div", { class: "cards" }, ...(many ? cards.slice(0, 12) : cards)),
    many && h("details", {}, h("summary", {}, `${rest.length} more columns`), h("div", { class: "cards" }, ...rest)));
}

/** Two standard errors of the noise, where they are known, to two digits. */
function plusMinus(error: number | null): string {
  return error === null ? "" : ` ± ${number(Number((2 * error).toPrecision(2)))}`;
}

function card(c: Contract, d: Distribution): HTMLElement {
  const column = columnOf(c, d.column);
  const text = d.mean === null ? "" : `mean ${number(d.mean)}${plusMinus(d.meanError)}${d.spread === null ? "" : `, standard deviation ${number(d.spread)}${plusMinus(d.spreadError)}`}`;
  const ends: [number, number] = column.kind === "numeric" ? [column.low!, column.high!] : boundsOf(c, d.column);
  if (d.bars) {
    const shown = shownBars(column, d.bars), of = { ...d, bars: shown.bars }, words = of.bars.map((b) => `${b.label || "empty"} ${percent(b.share)}`).join(", ");
    const note = [shown.note, text].filter(Boolean).join(" ");
    return h("div", { class: "card" }, h("h3", {}, d.column), chart(null, `Shares of ${d.column}: ${words}. ${shown.note}`.trim(), (w) => bars(of, w)), note && h("p", { class: "note" }, note));
  }
  if (d.mean === null) return h("div", { class: "card" }, h("h3", {}, d.column), h("p", { class: "note" }, "Encoded by vectors; its levels are not told apart."));
  return h("div", { class: "card" }, h("h3", {}, d.column), chart(null, `${d.column}: ${text}`, (w) => span(d, ends[0], ends[1], w)), h("p", { class: "note" }, text));
}

type Bars = NonNullable<Distribution["bars"]>;

/** The bars to draw: levels that have an order keep it, neighbours put together where they are many; of other levels the most common. */
function shownBars(column: Column, all: Bars): { readonly bars: Bars; readonly note: string } {
  if (column.kind === "numeric" || column.kind === "ordinal") {
    const least = Math.ceil(all.length / 40), even = Array.from({ length: least }, (_, i) => least + i).find((size) => all.length % size === 0), size = even ?? least;
    if (size === 1) return { bars: all, note: "" };
    const groups = Array.from({ length: Math.ceil(all.length / size) }, (_, i) => all.slice(i * size, (i + 1) * size));
    return { bars: groups.map(together), note: `${size} neighbours of ${all.length} in each bar${even ? "" : ", fewer in the last"}.` };
  }
  if (all.length <= 24) return { bars: all, note: "" };
  return { bars: [...all].sort((a, b) => b.share - a.share).slice(0, 16), note: `The 16 most common of ${all.length}.` };
}

/** Neighbours as one bar: shares add up, and so do the variances of their noise. */
function together(group: Bars): Bars[number] {
  const first = group[0]!.label, last = group[group.length - 1]!.label, bins = first.startsWith("[") && first.includes(", ") && last.includes(", ");
  const label = group.length === 1 ? first : bins ? `${first.split(", ")[0]}, ${last.split(", ")[1]}` : `${first} to ${last}`;
  const error = group.some((b) => b.error === null) ? null : Math.hypot(...group.map((b) => b.error!));
  return { label, share: group.reduce((sum, b) => sum + b.share, 0), error };
}

/** Ends of a scalar that has levels. */
function boundsOf(c: Contract, name: string): [number, number] {
  const block = c.blocks.find((b) => b.column === name);
  return block ? [block.centre - block.half, block.centre + block.half] : [0, 1];
}

export function pairsSection(c: Contract): HTMLElement | null {
  if (!c.association.length) return null;
  const columns = c.blocks.flatMap((b) => (b.column === null ? [] : [b.column])), shown = columns.slice(0, 40);
  const strongest = [...c.association].sort((a, b) => Math.abs(b.value) - Math.abs(a.value)).slice(0, 20);
  const kept = new Set(shown), within = c.association.filter((p) => kept.has(p.left) && kept.has(p.right));
  const known = c.association[0]!.error !== null;
  return section("pairs", "Which columns go together",
    h("p", {}, "Between two numbers the correlation: blue where they rise together, orange where one falls as the other rises. With levels the root of Escoufier's RV, 0 to 1, which has no sign and weighs a level by how common it is. ",
      known ? "The noise's own contribution is taken off. A pair that noise could have made, within two standard errors of 0, shows a dot or stays empty."
        : "The release holds estimated tables: pairs that were never measured are the model's guess, so there is no error to show."),
    chart("Strength of association", `The strongest: ${strongest.slice(0, 8).map((p) => `${p.left} and ${p.right} ${number(p.value)}`).join("; ")}`,
      (width) => heatMap(within, shown, Math.min(width, 260 + shown.length * 44)),
      columns.length > shown.length && h("p", { class: "note" }, `The first ${shown.length} of ${columns.length} columns.`)),
    h("details", {}, h("summary", {}, "The strongest pairs as a table"),
      table("Association and two standard errors", ["Pair", "Association", "±"],
        strongest.map((p) => [`${p.left} × ${p.right}`, number(p.value), p.error === null ? "not known" : number(2 * p.error)]), "Strongest pairs")));
}

export function reading(): HTMLElement {
  return section("reading", "How to read this",
    h("ul", {},
      h("li", {}, h("b", {}, "coef"), " is shrunken towards 0 and predicts best; ", h("b", {}, "estimate"), " is not shrunken, and intervals are around it."),
      h("li", {}, h("b", {}, "sampling"), ": the error that any regression on as many rows would have. ", h("b", {}, "privacy"), ": the error that the noise of this release adds. The interval covers both."),
      h("li", {}, h("b", {}, "not identified"), ": the noise hides this coefficient. Leave out columns that say the same, or measure levels against a common one."),
      h("li", {}, "Values outside the declared bounds were clamped, undeclared levels went to another level before anything was counted."),
      h("li", {}, "Looking at many regressions costs no privacy, but it still makes chance findings likely.")),
    h("p", { class: "note" }, "This page is one file. It sends nothing anywhere and needs no network."));
}

export function section(id: string, title: string, ...children: readonly (Node | string | null | undefined | false)[]): HTMLElement {
  return h("section", { id, "aria-labelledby": `${id}-title` }, h("h2", { id: `${id}-title` }, title), ...children);
}

/** A figure that is drawn again whenever its width changes. */
export function chart(title: string | null, words: string, draw: (width: number) => Node, ...notes: readonly (Node | string | null | undefined | false)[]): HTMLElement {
  const host = h("div", { class: "chart", role: "img", "aria-label": words });
  fitted(host, draw);
  return h("figure", {}, title && h("figcaption", {}, title), host, ...notes);
}


