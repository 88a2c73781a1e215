// Python and the checker, beside the page, so that typing never waits for them.
import { loadPyodide } from "./pyodide/pyodide.mjs";

const fetched = async (name) => {
  const response = await fetch(new URL(name, import.meta.url));
  if (!response.ok) throw new Error(`${name}: ${response.status} ${response.statusText}`);
  return new Uint8Array(await response.arrayBuffer());
};

const START = `
import os, sys
sys.path[:0] = ["/axon", "/algebra.zip"]
os.environ["AXON_CACHE"], os.environ["XDG_CACHE_HOME"] = "/axon/cache/modules", "/axon/cache"
import sympy
`;

let check;

async function start() {
  const [python, program, algebra] = await Promise.all([
    loadPyodide({ indexURL: new URL("pyodide/", import.meta.url).href }),
    fetched("axon.zip"),
    fetched("algebra.zip"),
  ]);
  python.unpackArchive(program, "zip", { extractDir: "/axon" });
  python.FS.writeFile("/algebra.zip", algebra);  // SymPy, which few programs need, is imported from it as it is
  python.runPython(START);
  check = python.pyimport("axon.tools.playground.answers").check;
  for (const text of JSON.parse(python.FS.readFile("/axon/warm.json", { encoding: "utf8" }))) check(text, true);
}

const started = start().then(
  () => postMessage({ kind: "ready" }),
  (error) => postMessage({ kind: "failed", message: String(error) }),
);

onmessage = async ({ data }) => {
  await started;
  try {
    const began = performance.now();
    const answer = JSON.parse(check(data.text, data.tries));
    postMessage({ kind: "checked", id: data.id, tries: data.tries, answer, milliseconds: performance.now() - began });
  } catch (error) {
    postMessage({ kind: "failed", message: String(error) });
  }
};
