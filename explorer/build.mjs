/** Bundles the page's script and style into src/ddssp/report/, or wherever the first argument says. */

import asc from "assemblyscript/asc";
import { build } from "esbuild";
import { createHash } from "node:crypto";
import { mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { dirname, join, relative, resolve } from "node:path";
import { fileURLToPath } from "node:url";

const here = dirname(fileURLToPath(import.meta.url));
const out = resolve(process.argv[2] ?? join(here, "..", "src", "ddssp", "report"));
process.chdir(here);

/** Files the asset is made from, in a fixed order. */
function sources(folder) {
  return readdirSync(folder).sort().flatMap((name) => {
    const path = join(folder, name);
    return statSync(path).isDirectory() ? sources(path) : [path];
  });
}

/** SHA-256 of what the asset is made from: tells a stale asset without rebuilding it (tests/report/asset_test.py). */
const hash = createHash("sha256");
for (const path of [...sources(join(here, "src")), join(here, "kernel", "kernel.ts"), join(here, "package.json")]) {
  hash.update(relative(here, path).replaceAll("\\", "/")).update("\0").update(readFileSync(path)).update("\0");
}

/** The heavy loops, compiled: two numbers at a time, no runtime of its own; once more for browsers that multiply and add in one step. */
mkdirSync(join(here, "kernel", "build"), { recursive: true });
for (const [name, features] of [["kernel", ["simd"]], ["fused", ["simd", "relaxed-simd"]]]) {
  const enabled = features.flatMap((feature) => ["--enable", feature]);
  const compiled = await asc.main(
    ["kernel/kernel.ts", "-O3", "--noAssert", "--converge", ...enabled, "--runtime", "stub", "--outFile", `kernel/build/${name}.wasm`],
    { stdout: process.stdout, stderr: process.stderr, readFile: (file, base) => read(join(base, file)), writeFile: (file, data, base) => writeFileSync(join(base, file), data), listFiles: () => null },
  );
  if (compiled.error) throw compiled.error;
}

function read(path) {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return null;
  }
}

/** Names and licences of the packages in a bundle, each text once. */
function licences(metafile) {
  const texts = new Map();
  for (const path of Object.keys(metafile.inputs).sort()) {
    const found = /node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(path);
    if (!found) continue;
    const folder = join(here, "node_modules", found[1]), file = readdirSync(folder).find((entry) => /^licen[cs]e/i.test(entry));
    const text = file ? readFileSync(join(folder, file), "utf8").trim() : JSON.parse(readFileSync(join(folder, "package.json"), "utf8")).license;
    texts.set(text, (texts.get(text) ?? new Set()).add(found[1]));
  }
  return [...texts].map(([text, names]) => `\n/*! ${[...names].join(", ")}\n${text.replaceAll("*/", "* /")}\n*/\n`).join("");
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
    loader: { ".wasm": "binary" },
    absWorkingDir: here,
    metafile: true,
    logLevel: "warning",
  });
  writeFileSync(join(out, name), `${banner}\n${result.outputFiles[0].text}${licences(result.metafile)}`);
}
