/** The questions that can be asked: model, target, features, reference levels. */

import { numberOf, type Contract } from "../contract";
import type { Model } from "../fit/fit";
import { fill, h, number } from "./dom";
import { columnOf, commonLevels, models, retargeted, usable, type State } from "./state";

type Change = (next: State) => void;
type Now = () => State;

const TITLES: Readonly<Record<Model, string>> = { linear: "Linear", logistic: "Logistic", poisson: "Poisson" };

export function controls(contract: Contract, state: Now, change: Change): { readonly element: HTMLElement; readonly show: () => void } {
  const model = h("select", { id: "model", onchange: () => change({ ...state(), model: model.value as Model }) });
  const target = h("select", { id: "target", onchange: () => change(retargeted(contract, state(), target.value)) });
  const level = h("select", { id: "level", onchange: () => change({ ...state(), level: Number(level.value) }) });
  const confidence = h("select", { id: "confidence", onchange: () => change({ ...state(), confidence: Number(confidence.value) }) });
  const intercept = h("input", { type: "checkbox", id: "intercept", onchange: () => change({ ...state(), intercept: intercept.checked }) });
  const levelField = field("Level explained", level), interceptField = h("label", { class: "check", for: "intercept" }, intercept, " Intercept");
  const features = h("fieldset", { class: "features" }), references = h("details", { class: "references" });
  const element = h("form", { class: "controls", "aria-label": "Regression", onsubmit: (event) => event.preventDefault() },
    h("div", { class: "row" }, field("Target", target), field("Model", model), levelField, field("Interval", confidence), interceptField),
    features, references);

  const show = () => {
    const s = state(), able = usable(contract).filter((n) => models(contract, n).length);
    options(target, able.map((n) => [n, n]), s.target);
    options(model, models(contract, s.target).map((m) => [m, TITLES[m]]), s.model);
    const labels = columnOf(contract, s.target).labels;
    levelField.hidden = !(s.model === "logistic" && labels.length > 2);
    options(level, labels.map((l, i) => [String(i), l || "(empty)"]), String(s.level));
    options(confidence, levels(s.confidence).map((v) => [String(v), `${number(100 * v)} %`]), String(s.confidence));
    intercept.checked = s.intercept;
    interceptField.hidden = s.model !== "linear";
    showFeatures(contract, features, state, change);
    showReferences(contract, references, state, change);
  };
  return { element, show };
}

/** Levels of an interval to choose from; one that came by address among them. */
function levels(now: number): readonly number[] {
  return [...new Set([0.8, 0.9, 0.95, 0.99, now])].sort((a, b) => a - b);
}

function field(title: string, control: HTMLElement): HTMLElement {
  return h("div", { class: "field" }, h("label", { for: control.id }, title), control);
}

function options(select: HTMLSelectElement, entries: readonly (readonly [string, string])[], value: string): void {
  const same = select.options.length === entries.length && entries.every(([v, text], i) => select.options[i]!.value === v && select.options[i]!.text === text);
  if (!same) fill(select, ...entries.map(([v, text]) => h("option", { value: v }, text)));
  if (select.value !== value) select.value = value;
}

/** Keeps the focus where it was: the boxes stay, only their state changes. */
function showFeatures(contract: Contract, host: HTMLElement, state: Now, change: Change): void {
  const s = state();
  const names = usable(contract).filter((n) => n !== s.target), chosen = new Set(s.features);
  const known = Array.from(host.querySelectorAll("input"), (box) => box.value);
  if (host.dataset["target"] === s.target && known.length === names.length) {
    for (const box of host.querySelectorAll("input")) box.checked = chosen.has(box.value);
    return;
  }
  host.dataset["target"] = s.target;
  const pick = () => {
    const on = new Set(Array.from(host.querySelectorAll("input:checked"), (box) => (box as HTMLInputElement).value));
    change({ ...state(), features: names.filter((n) => on.has(n)) });
  };
  const all = (on: boolean) => () => {
    for (const box of host.querySelectorAll("input")) box.checked = on;
    pick();
  };
  fill(host, h("legend", {}, "Features"),
    h("div", { class: "boxes" }, ...names.map((name, i) => h("label", { class: "check", for: `feature-${i}` },
      h("input", { type: "checkbox", id: `feature-${i}`, value: name, checked: chosen.has(name), onchange: pick }), ` ${name}`))),
    h("div", { class: "buttons" }, h("button", { type: "button", onclick: all(true) }, "All"), h("button", { type: "button", onclick: all(false) }, "None")));
}

/** One field for each column that is measured against a level, made once; those of other columns than the features are hidden. */
function showReferences(contract: Contract, host: HTMLElement, state: Now, change: Change): void {
  const s = state();
  if (!host.firstChild) {
    const names = usable(contract).filter((n) => contract.blocks.some((b) => b.column === n && b.contrast === "first" && b.table));
    fill(host, h("summary", {}, "Reference levels: what each level is measured against"),
      h("div", { class: "boxes" }, ...names.map((name, i) => referenceField(contract, name, i, state, change))),
      h("div", { class: "buttons" },
        h("button", { type: "button", onclick: () => change({ ...state(), references: commonLevels(contract) }) }, "The most common level of each"),
        h("button", { type: "button", onclick: () => change({ ...state(), references: {} }) }, "The first")));
  }
  const wanted = new Set(s.features);
  let any = false;
  for (const box of host.querySelectorAll("select")) {
    const name = box.dataset["column"]!, value = String(numberOf(s.references, name) ?? 0);
    any ||= wanted.has(name);
    if (box.parentElement!.hidden === wanted.has(name)) box.parentElement!.hidden = !wanted.has(name);
    if (box.value !== value) box.value = value;
  }
  host.hidden = !any;
}

function referenceField(contract: Contract, name: string, i: number, state: Now, change: Change): HTMLElement {
  const select: HTMLSelectElement = h("select", {
    id: `reference-${i}`, "data-column": name,
    onchange: () => {
      const now = state();
      change({ ...now, references: { ...now.references, [name]: Number(select.value) } });
    },
  });
  options(select, columnOf(contract, name).labels.map((l, at) => [String(at), l || "(empty)"]), "0");
  return field(name, select);
}
