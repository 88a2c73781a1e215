// node compile.mjs PYODIDE ARCHIVE…: adds to each archive the bytecode of its modules, as Pyodide's Python wants it, so that no page
// compiles them. What axon.zip has is unpacked, and keeps its sources, which Axon reads; the others are imported as they are.
import fs from "node:fs";
import path from "node:path";
import { pathToFileURL } from "node:url";

const [pyodide, ...archives] = process.argv.slice(2);
const { loadPyodide } = await import(pathToFileURL(path.resolve(pyodide, "pyodide.mjs")).href);
const python = await loadPyodide({ indexURL: path.resolve(pyodide) + path.sep });

const COMPILE = `
import importlib.util, sys, zipfile
from importlib._bootstrap_external import _code_to_hash_pyc

def compiled(name, source):
    code = compile(source, f"/{name}", "exec", dont_inherit=True)
    return bytes(_code_to_hash_pyc(code, importlib.util.source_hash(source), False))

def compile_all(unpacked):
    with zipfile.ZipFile("/in.zip") as old, zipfile.ZipFile("/out.zip", "w", zipfile.ZIP_DEFLATED) as new:
        for name in old.namelist():
            data = old.read(name)
            if not name.endswith(".py") or unpacked:
                new.writestr(zipfile.ZipInfo(name), data, zipfile.ZIP_DEFLATED)
            if name.endswith(".py"):
                folder, _, file = name.rpartition("/")
                place = f"{folder}/__pycache__/{file[:-3]}.{sys.implementation.cache_tag}.pyc" if unpacked else f"{name[:-3]}.pyc"
                new.writestr(zipfile.ZipInfo(place), compiled(name, data), zipfile.ZIP_DEFLATED)
compile_all
`;

const compileAll = python.runPython(COMPILE);
for (const archive of archives) {
  python.FS.writeFile("/in.zip", new Uint8Array(fs.readFileSync(archive)));
  compileAll(path.basename(archive) === "axon.zip");
  fs.writeFileSync(archive, python.FS.readFile("/out.zip"));
}
