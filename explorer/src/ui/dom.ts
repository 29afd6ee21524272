/** Elements, built from text and never from markup: whatever a label says, it stays text. */

type Child = Node | string | null | undefined | false;
type Attributes = Readonly<Record<string, string | number | boolean | ((event: Event) => void) | null | undefined>>;

export function h<K extends keyof HTMLElementTagNameMap>(
  tag: K, attributes: Attributes = {}, ...children: readonly Child[]
): HTMLElementTagNameMap[K] {
  const out = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === "function") out.addEventListener(name.replace(/^on/, ""), value);
    else out.setAttribute(name, value === true ? "" : String(value));
  }
  out.append(...children.filter((c): c is Node | string => c !== null && c !== undefined && c !== false));
  return out;
}

/** Puts `children` in place of whatever an element holds. */
export function fill(element: Element, ...children: readonly Child[]): void {
  element.replaceChildren(...children.filter((c): c is Node | string => c !== null && c !== undefined && c !== false));
}

/** Four significant digits; large numbers whole, with commas. */
export function number(value: number | null): string {
  if (value === null || !Number.isFinite(value)) return "–";
  if (Math.abs(value) >= 1e4) return Math.round(value).toLocaleString("en-US").replace("-", "−");
  if (value === 0) return "0";
  const text = Math.abs(value) < 1e-4 ? value.toExponential(2) : String(Number(value.toPrecision(4)));
  return text.replace("-", "−");
}

export function percent(share: number, digits = 1): string {
  return `${(100 * share).toFixed(digits)} %`;
}

/** A table whose first column names the row. */
export function table(caption: string, headings: readonly string[], rows: readonly (readonly Child[])[], label = caption): HTMLElement {
  return h("div", { class: "scroll", role: "region", tabindex: 0, "aria-label": label },
    h("table", {},
      h("caption", {}, caption),
      h("thead", {}, h("tr", {}, ...headings.map((text) => h("th", { scope: "col" }, text)))),
      h("tbody", {}, ...rows.map(([name, ...cells]) =>
        h("tr", {}, h("th", { scope: "row" }, name), ...cells.map((cell) => h("td", {}, cell)))))));
}

/** Calls `draw` with the width at hand, now and whenever that changes. */
export function fitted(host: HTMLElement, draw: (width: number) => Node): void {
  let last = 0;
  const again = () => {
    const width = Math.max(Math.floor(host.clientWidth), 240);
    if (Math.abs(width - last) < 8 && host.firstChild) return;
    last = width;
    fill(host, draw(width));
  };
  new ResizeObserver(() => requestAnimationFrame(again)).observe(host);
}
