/** What leaves the page: CSV, pictures and the code that gives the same fit elsewhere. */

import type { Contract } from "../contract";
import { limits, significance, type Fit } from "../fit/fit";
import { usable, type State } from "./state";

export function save(name: string, type: string, content: string | Blob): void {
  const blob = content instanceof Blob ? content : new Blob([content], { type });
  const url = URL.createObjectURL(blob), link = document.createElement("a");
  link.href = url;
  link.download = name;
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}

/** Text for a cell that no spreadsheet takes for a formula. */
function cell(text: string): string {
  const safe = /^[=+\-@\t\r]/.test(text) ? `'${text}` : text;
  return /[",;\t\n\r]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}

export function csv(fit: Fit, confidence: number): string {
  const head = ["name", "coef", "estimate", "stderr", "sampling", "privacy", "z", "p", "low", "high"];
  const rows = fit.coefficients.map((c) => {
    const test = significance(c), ends = limits(c, confidence);
    const numbers = [c.coef, c.estimate, c.stderr, c.sampling, c.privacy, test?.z, test?.p, ends?.[0], ends?.[1]];
    return [cell(c.name), ...numbers.map((v) => (v === null || v === undefined ? "" : String(v)))].join(",");
  });
  return [head.join(","), ...rows].join("\r\n") + "\r\n";
}

/** A chart as a file of its own: its colours written out, on the page's paper. */
export function svgText(host: Element): string {
  const chart = host.querySelector("svg");
  if (!chart) return "";
  const copy = chart.cloneNode(true) as SVGSVGElement, style = getComputedStyle(document.documentElement);
  copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
  const paper = document.createElementNS("http://www.w3.org/2000/svg", "rect");
  for (const [name, value] of [["width", "100%"], ["height", "100%"], ["fill", "var(--paper)"]] as const) paper.setAttribute(name, value);
  copy.insertBefore(paper, copy.querySelector("g"));
  const text = new XMLSerializer().serializeToString(copy);
  return text.replace(/var\((--[\w-]+)\)/g, (_, name: string) => style.getPropertyValue(name).trim() || "black")
    .replaceAll("font-family: inherit", "font-family: sans-serif");
}

export async function png(host: Element): Promise<Blob> {
  const chart = host.querySelector("svg")!, { width, height } = chart.getBoundingClientRect();
  const image = new Image();
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(svgText(host))}`;
  await image.decode();
  const canvas = document.createElement("canvas");
  canvas.width = Math.round(width * 2);
  canvas.height = Math.round(height * 2);
  canvas.getContext("2d")!.drawImage(image, 0, 0, canvas.width, canvas.height);
  return new Promise((done, failed) => canvas.toBlob((blob) => (blob ? done(blob) : failed(new Error("no picture"))), "image/png"));
}

/** A Python text literal; JSON's is one, too. */
const quoted = (text: string) => JSON.stringify(text);
const shell = (text: string) => (/^[\w.,/:-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`);

function chosen(contract: Contract, state: State): readonly string[] | null {
  return state.features.length === usable(contract).length - 1 ? null : state.features;
}

export function python(contract: Contract, state: State): string {
  const features = chosen(contract, state), settings = [quoted(state.target)];
  if (features) settings.push(`features=[${features.map(quoted).join(", ")}]`);
  if (!state.intercept && state.model === "linear") settings.push("intercept=False");
  const level = state.confidence === 0.95 ? "" : String(state.confidence);
  return ["import ddssp", "", `release = ddssp.load(${quoted(contract.about.file)})`, `fit = release.${state.model}(${settings.join(", ")})`,
    `print(fit.summary(${level}))`, ...aside(contract, state, "# ")].join("\n");
}

export function commandLine(contract: Contract, state: State): string {
  const features = chosen(contract, state), comma = features !== null && features.length > 1 && features.some((f) => f.includes(","));
  if (comma || state.target.includes(",")) return "# a column's name holds a comma, which the command line takes for two: use Python";
  if (features !== null && features.length === 0) return "# a regression on no feature at all: use Python";
  const parts = ["ddssp fit", shell(contract.about.file), `--model ${state.model}`, `--target ${shell(state.target)}`];
  if (features) parts.push(`--features ${shell(features.join(","))}`);
  if (!state.intercept && state.model === "linear") parts.push("--no-intercept");
  if (state.confidence !== 0.95) parts.push(`--level ${state.confidence}`);
  return [parts.join(" "), ...aside(contract, state, "# ")].join("\n");
}

/** What the page was asked that the code above is not. */
function aside(contract: Contract, state: State, mark: string): string[] {
  const moved = Object.entries(state.references).filter(([name, level]) => level && state.features.includes(name));
  const out = moved.map(([name, level]) => {
    const label = contract.columns.find((c) => c.name === name)?.labels[level] ?? "";
    return `${mark}the page shows ${name} against ${label}; here it is against its first level`;
  });
  return out.map((line) => line.replace(/[\n\r]/g, " "));
}
