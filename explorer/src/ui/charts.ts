/** The charts, drawn by Observable Plot in the page's own colours. */

import * as Plot from "@observablehq/plot";
import type { Distribution, Pair, Spending } from "../contract";
import { limits, type Coefficient } from "../fit/fit";
import { number, percent } from "./dom";

const STYLE = { background: "transparent", color: "var(--ink)", fontFamily: "inherit", fontSize: "12px", overflow: "visible" };

type Svg = SVGSVGElement | HTMLElement;

/** A chart without labels of its own for its parts: the figure around it says in words what it shows.
 *
 * `names` are those of its rows, and of its columns where it has such, in full: what hovering over a shortened one shows.
 */
function drawn(options: Plot.PlotOptions, names: readonly string[] = []): Svg {
  const out = Plot.plot(options);
  for (const axis of out.querySelectorAll("[aria-label='y-axis tick label'], [aria-label='x-axis tick label']")) {
    if (axis.children.length === names.length) names.forEach((name, i) => axis.children[i]!.append(titled(name)));
  }
  for (const part of out.querySelectorAll("[aria-label]")) part.removeAttribute("aria-label");
  return out;
}

function titled(name: string): SVGElement {
  const out = document.createElementNS("http://www.w3.org/2000/svg", "title");
  out.textContent = name;
  return out;
}

/** A label cut in its middle: names of levels begin alike, by their column, and differ at the end. */
export function short(label: string, most: number): string {
  const letters = Array.from(label), head = Math.floor((most - 1) * 0.4);
  return letters.length > most ? `${letters.slice(0, head).join("")}…${letters.slice(head + 1 - most).join("")}` : label;
}

/** A coefficient's name in at most so many letters: its column and its level each keep both of their ends. */
function shortName(c: Coefficient, most: number): string {
  if (c.column === null || !c.name.startsWith(`${c.column}=`)) return short(c.name, most);
  const level = c.name.slice(c.column.length + 1), wide = Array.from(c.column).length, long = Array.from(level).length;
  const room = Math.max(most - 1 - wide, Math.ceil((most - 1) / 2));
  return `${short(c.column, most - 1 - Math.min(long, room))}=${short(level, room)}`;
}

/** Room for the longest label at 12 pixels. */
function margin(labels: readonly string[], width: number): number {
  const longest = Math.max(4, ...labels.map((l) => Array.from(l).length));
  return Math.min(16 + longest * 6.6, width * 0.45);
}

export function bars(d: Distribution, width: number): Svg {
  const rows = d.bars!.map((b, i) => ({ ...b, i, name: short(b.label || "(empty)", 18) }));
  const top = Math.max(...rows.map((r) => Math.min(r.share + 2 * (r.error ?? 0), 1)), 0.01);
  return drawn({
    style: STYLE, width, height: 26 + rows.length * 17, marginLeft: margin(rows.map((r) => r.name), width), marginRight: 44,
    marginTop: 4, marginBottom: 20,
    x: { domain: [0, top], ticks: 3, tickFormat: (v: number) => percent(v, 0), label: null, tickSize: 3 },
    y: { domain: rows.map((r) => r.i), tickFormat: (i: number) => rows[i]!.name, label: null, tickSize: 0, padding: 0.25 },
    marks: [
      Plot.barX(rows, { x: "share", y: "i", fill: "var(--accent)", fillOpacity: 0.8 }),
      Plot.ruleY(rows.filter((r) => r.error !== null), {
        x1: (r: { share: number; error: number }) => Math.max(r.share - 2 * r.error, 0),
        x2: (r: { share: number; error: number }) => Math.min(r.share + 2 * r.error, top), y: "i", stroke: "var(--ink)", strokeWidth: 1.5,
      }),
      Plot.text(rows, {
        x: (r: { share: number; error: number | null }) => Math.min(r.share + 2 * (r.error ?? 0), top), y: "i",
        text: (r: { share: number }) => percent(r.share), dx: 5, textAnchor: "start", fill: "var(--ink)",
      }),
    ],
  }, rows.map((r) => r.label));
}

/** A number's mean and standard deviation within its declared range. */
export function span(d: Distribution, low: number, high: number, width: number): Svg {
  const mean = d.mean ?? 0, spread = d.spread ?? 0, error = 2 * (d.meanError ?? 0);
  const inside = (x: number) => Math.min(Math.max(x, low), high);
  return drawn({
    style: STYLE, width, height: 64, marginLeft: 14, marginRight: 14, marginTop: 6, marginBottom: 22,
    x: { domain: [low, high], ticks: 4, label: null, tickSize: 3 },
    y: { axis: null },
    marks: [
      Plot.ruleY([0], { x1: low, x2: high, stroke: "var(--line)", strokeWidth: 10, strokeLinecap: "round" }),
      Plot.ruleY([0], { x1: inside(mean - spread), x2: inside(mean + spread), stroke: "var(--accent)", strokeWidth: 10, strokeOpacity: 0.8 }),
      Plot.ruleY([0], { x1: inside(mean - error), x2: inside(mean + error), stroke: "var(--ink)", strokeWidth: 2 }),
      Plot.dot([0], { x: mean, y: 0, r: 4, fill: "var(--ink)", stroke: "var(--paper)" }),
    ],
  });
}

/** As written in its cell: what rounds to 0 has no sign. */
function hundredths(p: Pair): number {
  return Math.round(100 * p.value) / 100 || 0;
}

/** Associations as a square; a cell that noise could have made is only outlined. */
export function heatMap(pairs: readonly Pair[], columns: readonly string[], width: number): Svg {
  const both = pairs.flatMap((p) => [p, { ...p, left: p.right, right: p.left }]);
  const names = new Map(columns.map((c) => [c, short(c, width < 520 ? 12 : 22)]));
  const left = margin([...names.values()], width), cell = (width - left - 8) / columns.length;
  const shade = (p: Pair) => ["var(--privacy)", "var(--surface)", "var(--accent)"][Math.sign(hundredths(p)) + 1]!;
  const clear = (p: Pair) => p.error === null || Math.abs(p.value) > 2 * p.error, written = cell >= 30;
  return drawn({
    style: STYLE, width, height: left + 8 + cell * columns.length, marginLeft: left, marginTop: 8, marginBottom: left, marginRight: 8,
    x: { domain: columns, label: null, tickRotate: -90, tickSize: 0, tickFormat: (c: string) => names.get(c) ?? c, padding: 0.04 },
    y: { domain: columns, label: null, tickSize: 0, tickFormat: (c: string) => names.get(c) ?? c, padding: 0.04 },
    marks: [
      Plot.cell(both, { x: "left", y: "right", fill: "var(--surface)", stroke: "var(--line)", strokeWidth: 0.5 }),
      Plot.cell(both.filter(clear), {
        x: "left", y: "right", fill: shade, fillOpacity: (p: Pair) => 0.06 + 0.94 * Math.min(Math.abs(p.value), 1),
        title: (p: Pair) => `${p.left} × ${p.right}: ${number(p.value)}${p.error === null ? "" : ` ± ${number(2 * p.error)}`}`,
      }),
      written
        ? Plot.text(both, {
          x: "left", y: "right", fontSize: Math.min(11, cell / 3.2),
          text: (p: Pair) => (clear(p) ? hundredths(p).toFixed(2).replace("-", "−").replace("0.", ".") : "·"),
          fill: (p: Pair) => (clear(p) && Math.abs(p.value) > 0.7 ? "var(--paper)" : "var(--ink)"),
        })
        : null,
    ],
  }, columns);
}

/** Shares of ρ, one bar per line. */
export function spendingBars(rows: readonly Spending[], width: number): Svg {
  const named = rows.map((r, i) => ({ ...r, i, name: short(r.label, Math.min(Math.floor((width * 0.45 - 16) / 6.6), 46)) }));
  const top = Math.max(...rows.map((r) => r.share), 0.01);
  return drawn({
    style: STYLE, width, height: 14 + named.length * 22, marginLeft: margin(named.map((r) => r.name), width), marginRight: 52, marginTop: 4,
    marginBottom: 6,
    x: { domain: [0, top], axis: null },
    y: { domain: named.map((r) => r.i), tickFormat: (i: number) => named[i]!.name, label: null, tickSize: 0, padding: 0.3 },
    marks: [
      Plot.barX(named, { x: "share", y: "i", fill: "var(--accent)", fillOpacity: 0.8 }),
      Plot.text(named, { x: "share", y: "i", text: (r: Spending) => percent(r.share), dx: 5, textAnchor: "start", fill: "var(--ink)" }),
    ],
  }, named.map((r) => r.label));
}

export interface Drawn {
  readonly c: Coefficient;
  /** A number's declared range, so that one axis serves all; 1 for a level. */
  readonly unit: number;
}

/** Estimates with their whole intervals, and beside them what each part of the error alone would give. */
export function coefficients(rows: readonly Drawn[], level: number, width: number): Svg {
  const narrow = width < 520;
  const data = rows.map(({ c, unit }, i) => {
    const all = limits(c, level), privacy = limits(c, level, true);
    const reach = (all && c.stderr ? ((all[1] - all[0]) / 2) * (c.sampling! / c.stderr) : 0) * unit;
    return {
      i, name: shortName(c, narrow ? 22 : 36), at: (c.estimate ?? c.coef) * unit, known: c.estimate !== null,
      low: all ? all[0] * unit : null, high: all ? all[1] * unit : null,
      privacyLow: privacy ? privacy[0] * unit : null, privacyHigh: privacy ? privacy[1] * unit : null,
      samplingLow: c.estimate === null ? null : c.estimate * unit - reach, samplingHigh: c.estimate === null ? null : c.estimate * unit + reach,
    };
  });
  const seen = data.filter((d) => d.known);
  const ends = [0, ...data.flatMap((d) => (d.known ? [d.low!, d.high!] : [d.at]))];
  return drawn({
    style: STYLE, width, height: 54 + data.length * 22, marginLeft: margin(data.map((d) => d.name), width), marginRight: 16, marginTop: 8,
    marginBottom: 44,
    x: {
      domain: [Math.min(...ends), Math.max(...ends)], nice: true, grid: true, ticks: narrow ? 4 : 7, labelArrow: "none", labelOffset: 36,
      label: narrow ? "coefficient; of numbers: over their range" : "coefficient; of numbers: over their declared range",
      labelAnchor: narrow ? "right" : "center",
    },
    y: { domain: data.map((d) => d.i), tickFormat: (i: number) => data[i]!.name, label: null, tickSize: 0, padding: 0.2 },
    marks: [
      Plot.ruleX([0], { stroke: "var(--ink-soft)" }),
      Plot.ruleY(seen, { y: "i", x1: "privacyLow", x2: "privacyHigh", stroke: "var(--privacy)", strokeWidth: 4, dy: -5 }),
      Plot.ruleY(seen, { y: "i", x1: "low", x2: "high", stroke: "var(--ink)", strokeWidth: 1.5 }),
      Plot.ruleY(seen, { y: "i", x1: "samplingLow", x2: "samplingHigh", stroke: "var(--sampling)", strokeWidth: 4, dy: 5 }),
      Plot.dot(seen, { x: "at", y: "i", r: 3.5, fill: "var(--ink)" }),
      Plot.dot(data.filter((d) => !d.known), { x: "at", y: "i", r: 3.5, stroke: "var(--ink-soft)", fill: "var(--paper)" }),
    ],
  }, rows.map(({ c }) => c.name));
}

export interface WhatIf {
  readonly epsilon: number;
  readonly total: number | null;
  readonly sampling: number | null;
  readonly identified: number;
  readonly atLeast?: boolean;
}

/** The typical standard error at other ε, and the part of it that no ε takes away. */
export function preview(rows: readonly WhatIf[], now: number, width: number): Svg {
  const known = rows.filter((r) => r.total !== null);
  const top = Math.max(...known.map((r) => r.total!), 1e-9), floor = known.filter((r) => r.sampling !== null);
  return drawn({
    style: STYLE, width, height: 220, marginLeft: 56, marginRight: 20, marginBottom: 38, marginTop: 30,
    x: { type: "log", domain: [rows[0]!.epsilon, rows[rows.length - 1]!.epsilon] },
    y: { domain: [0, top * 1.08], ticks: 4, grid: true, label: "median standard error", labelArrow: "none" },
    marks: [
      Plot.axisX(rows.map((r) => r.epsilon), { text: rows.map((r) => `ε ${number(r.epsilon)}`), label: null }),
      Plot.line(floor, { x: "epsilon", y: "sampling", stroke: "var(--sampling)", strokeWidth: 2 }),
      Plot.line(known, { x: "epsilon", y: "total", stroke: "var(--ink)", strokeWidth: 2 }),
      Plot.dot(known, { x: "epsilon", y: "total", r: 4, fill: (r: WhatIf) => (r.epsilon === now ? "var(--privacy)" : "var(--ink)"), stroke: "var(--paper)" }),
    ],
  });
}
