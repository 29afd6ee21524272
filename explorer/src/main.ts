/** Builds the page from the release that is written into it. */

import type { Contract, Expectation } from "./contract";
import { fit, limits, modelsFor, momentsOf, predicted, significance } from "./fit/fit";
import { useKernel } from "./fit/kernel";
import { h, number, table } from "./ui/dom";
import { expectation } from "./ui/expectation";
import { explorer } from "./ui/explorer";
import { budget, columnsSection, guarantee, masthead, pairsSection, reading, section } from "./ui/sections";

/** For whoever wants to compute without the page: tests, consoles. */
(globalThis as unknown as { ddssp: unknown }).ddssp = { fit, limits, modelsFor, momentsOf, predicted, significance, useKernel };

function page(contract: Contract): void {
  const moments = momentsOf(contract), host = document.getElementById("page")!;
  const sections = [
    guarantee(contract), contract.ready && ready(contract), moments && explorer(contract, moments), !moments && !contract.ready && absent(contract),
    pairsSection(contract), columnsSection(contract), budget(contract), reading(),
  ].filter((s): s is HTMLElement => s instanceof HTMLElement);
  const links = sections.map((s) => h("a", { href: `#${s.id}`, onclick: (event) => jump(event, s) }, s.querySelector("h2")!.textContent!));
  host.append(h("a", { class: "skip", href: "#guarantee", onclick: (event) => jump(event, sections[0]!) }, "Skip to the report"),
    h("div", { class: "top" }, h("nav", { "aria-label": "Sections" }, ...links), themes()),
    masthead(contract), h("main", { id: "report" }, ...sections));
}

/** Links within the page leave the address alone: its fragment is the explorer's state. */
function jump(event: Event, to: HTMLElement): void {
  event.preventDefault();
  to.scrollIntoView();
  const title = to.querySelector("h2")!;
  title.setAttribute("tabindex", "-1");
  title.focus({ preventScroll: true });
}

function themes(): HTMLElement {
  const button = h("button", { type: "button", class: "theme", "aria-pressed": "false" }, "Dark");
  const system = matchMedia("(prefers-color-scheme: dark)");
  const dark = () => document.documentElement.dataset["theme"] === "dark" || (!document.documentElement.dataset["theme"] && system.matches);
  const show = () => {
    button.setAttribute("aria-pressed", String(dark()));
  };
  button.addEventListener("click", () => {
    document.documentElement.dataset["theme"] = dark() ? "light" : "dark";
    show();
  });
  system.addEventListener("change", show);
  show();
  return button;
}

/** The one fit that a task release holds. */
function ready(contract: Contract): HTMLElement {
  const r = contract.ready!;
  return section("fit", `The ${r.model} regression of ${r.target}`,
    h("p", {}, "The whole budget went into this one regression, on its true loss. ", r.why),
    table(`Coefficients of ${r.target}`, ["", "coef"], Object.entries(r.coefficients).map(([name, value]) => [name, number(value)]), "Coefficients"),
    h("p", { class: "note" }, contract.whyNoMoments ?? ""));
}

function absent(contract: Contract): HTMLElement {
  return section("fit", "Regressions", h("p", {}, contract.whyNoMoments ?? ""));
}

if (typeof document !== "undefined") {
  const given = JSON.parse(document.getElementById("release")!.textContent!) as Contract | Expectation;
  if ("kind" in given) document.getElementById("page")!.append(h("div", { class: "top" }, h("span", {}, "Before a release"), themes()), ...expectation(given));
  else page(given);
}
