/** The owner's preview: what a release would give, before anything is spent. */

import type { Expectation } from "../contract";
import { preview } from "./charts";
import { h, number, percent, table } from "./dom";
import { chart, exponent, section } from "./sections";

export function expectation(e: Expectation): HTMLElement[] {
  const now = e.rows.find((r) => r.epsilon === e.epsilon) ?? e.rows[0]!;
  return [
    h("header", { class: "masthead" },
      h("p", { class: "eyebrow" }, "Before a release: nothing was read, drawn or spent"),
      h("h1", {}, e.name),
      h("p", { class: "lead" }, `What to expect of a release with ${number(e.records)} records at several ε, from the schema and the stated number of records alone.`),
      h("dl", { class: "facts" }, ...([["Stated records", number(e.records)], ["Columns", String(e.columns)], ["Protects each", e.unit], ["δ", exponent(e.delta)],
        ["Planned ε", number(e.epsilon)]] as const).map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value))))),
    h("main", {}, section("accuracy", `Standard error of a coefficient, regression of ${e.target}`,
      h("p", {}, "The median over the coefficients that the noise would not hide, each over its column's declared range and as a share of half the target's range. ",
        "Blue is what sampling alone would give; what lies between the lines is the price of privacy. The orange dot is the planned ε."),
      chart(null, e.rows.map((r) => `ε ${number(r.epsilon)}: ${number(r.total)}`).join(", "), (width) => preview(e.rows, now.epsilon, Math.min(width, 720))),
      table("Expected accuracy", ["ε", "median std err", "of it sampling", "coefficients not hidden", "error of a correlation"],
        e.rows.map((r) => [number(r.epsilon), number(r.total), number(r.sampling), `${r.identified} of ${r.of} (${percent(r.identified / r.of, 0)})`, number(r.correlation)]), "Expected accuracy"),
      h("h3", {}, "What this rests on"),
      h("ul", {},
        h("li", {}, "Unrelated columns, numbers spread evenly over their range, levels equally common, an error as large as the target's spread. Real columns are less even: rare levels, a level “other” that hardly any record takes, and columns that repeat each other fare worse."),
        e.declared !== null && e.declared !== e.target && h("li", {}, `The declared target ${e.declared} has levels without an order. It gets its larger share of the budget here as it will in the release; shown is the regression of ${e.target}, which is a number.`),
        h("li", {}, `Mechanism moments${e.mechanism === "moments" ? "" : `; the plan is ${e.mechanism}, which has no such table of its own`}.`),
        h("li", {}, "The number of records is what you stated. The data was not looked at, so this page may be published.")))),
  ];
}
