/** Bundles the page's script and style into src/ddssp/report/, or wherever the first argument says. */

import { build } from "esbuild";
import { createHash } from "node:crypto";
import { readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { fileURLToPath } from "node:url";

const here = dirname(fileURLToPath(import.meta.url));
const out = process.argv[2] ?? join(here, "..", "src", "ddssp", "report");

/** Files the asset is made from, in a fixed order. */
function sources(folder) {
  return readdirSync(folder).sort().flatMap((name) => {
    const path = join(folder, name);
    return statSync(path).isDirectory() ? sources(path) : [path];
  });
}

/** SHA-256 of what the asset is made from: tells a stale asset without rebuilding it (tests/report/asset_test.py). */
const hash = createHash("sha256");
for (const path of [...sources(join(here, "src")), join(here, "package.json")]) {
  hash.update(relative(here, path).replaceAll("\\", "/")).update("\0").update(readFileSync(path)).update("\0");
}

const banner = `/* Built from explorer/, sha256 of its sources ${hash.digest("hex")}; \`make explorer\` rebuilds it. */`;
for (const [entry, name] of [["src/main.ts", "explorer.js"], ["src/style/page.css", "explorer.css"]]) {
  const result = await build({
    entryPoints: [join(here, entry)],
    bundle: true,
    minify: true,
    write: false,
    format: "iife",
    target: ["es2022"],
    charset: "utf8",
    legalComments: "eof",
    absWorkingDir: here,
    logLevel: "warning",
  });
  writeFileSync(join(out, name), `${banner}\n${result.outputFiles[0].text}`);
}
