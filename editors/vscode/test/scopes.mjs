// The scopes of pieces of Axon, for a test that holds the grammar against Axon's own lexer.
// Reads [{ "text": …, "offsets": [[line, column], …] }, …] as JSON, and writes the scopes at these places, in the same form.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const require = createRequire(import.meta.url);
const oniguruma = require("vscode-oniguruma");
const { Registry, parseRawGrammar, INITIAL } = require("vscode-textmate");

const here = dirname(fileURLToPath(import.meta.url));
const wasm = readFileSync(require.resolve("vscode-oniguruma/release/onig.wasm"));
await oniguruma.loadWASM(wasm.buffer.slice(wasm.byteOffset, wasm.byteOffset + wasm.byteLength));
const file = join(here, "..", "syntaxes", "axon.tmLanguage.json");
const registry = new Registry({
  onigLib: Promise.resolve({
    createOnigScanner: (patterns) => new oniguruma.OnigScanner(patterns),
    createOnigString: (text) => new oniguruma.OnigString(text),
  }),
  loadGrammar: async () => parseRawGrammar(readFileSync(file, "utf8"), file),
});
const grammar = await registry.loadGrammar("source.axon");

const answers = JSON.parse(readFileSync(0, "utf8")).map(({ text, offsets }) => {
  let state = INITIAL;
  const lines = text.split("\n").map((line) => {
    const found = grammar.tokenizeLine(line, state);
    state = found.ruleStack;
    return found.tokens;
  });
  return offsets.map(([line, column]) => lines[line].find((t) => t.startIndex <= column && column < t.endIndex)?.scopes.at(-1) ?? "");
});
process.stdout.write(JSON.stringify(answers));
