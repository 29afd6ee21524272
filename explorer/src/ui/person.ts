/** A made-up record: one field for each column that the features need. */

import { numberOf, type Column, type Contract } from "../contract";
import { h, number } from "./dom";
import { within, type State } from "./state";

export interface MadeUp {
  readonly element: HTMLElement;
  readonly show: (state: State) => void;
}

/** Fields are made once; those that the features do not need are hidden. */
export function madeUp(contract: Contract, set: (column: string, value: number) => void): MadeUp {
  const derived = new Set(contract.columns.filter((c) => c.derived).map((c) => c.name));
  const fields = contract.columns.filter((c) => !derived.has(c.name)).map((column, i) => ({ column, ...field(column, `record-${i}`, set) }));
  const show = (state: State): void => {
    const needed = sources(contract, state);
    for (const f of fields) {
      if (f.element.hidden === needed.has(f.column.name)) f.element.hidden = !f.element.hidden;
      const value = numberOf(state.person, f.column.name) ?? 0, text = f.column.kind === "numeric" ? String(Number(value.toPrecision(6))) : String(value);
      if (document.activeElement !== f.control && f.control.value !== text) f.control.value = text;
    }
  };
  return { element: h("div", { class: "boxes" }, ...fields.map((f) => f.element)), show };
}

/** The features, or what they are derived from. */
function sources(contract: Contract, state: State): ReadonlySet<string> {
  const wanted = new Set(state.features);
  return new Set(contract.columns.filter((c) => wanted.has(c.name)).flatMap((c) => c.derived?.of ?? [c.name]));
}

function field(c: Column, id: string, set: (column: string, value: number) => void) {
  if (c.kind === "numeric") {
    const said = h("span", { id: `${id}-said`, class: "said", "aria-live": "polite" });
    const control: HTMLInputElement = h("input", {
      id, type: "number", min: c.low, max: c.high, step: "any", inputmode: "decimal", "aria-describedby": said.id,
      oninput: () => {
        const given = control.valueAsNumber, missing = !Number.isFinite(given), outside = !missing && within(c, given) !== given;
        control.setAttribute("aria-invalid", String(missing || outside));
        said.textContent = missing ? "no number: the last one counts" : outside ? `declared from ${number(c.low)} to ${number(c.high)}: ${number(within(c, given))} counts` : "";
        if (!missing) set(c.name, within(c, given));
      },
    });
    return { control, element: h("div", { class: "field" }, h("label", { for: id }, c.name), control, said) };
  }
  const control: HTMLSelectElement = h("select", { id, onchange: () => set(c.name, Number(control.value)) },
    ...c.labels.map((l, at) => h("option", { value: at }, l || "(empty)")));
  return { control, element: h("div", { class: "field" }, h("label", { for: id }, c.name), control) };
}
