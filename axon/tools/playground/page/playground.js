// The page: an editor, what the checker says of the program in it, and links that hold a program.
import { autocompletion, completionKeymap } from "@codemirror/autocomplete";
import { defaultKeymap, history, historyKeymap, indentWithTab } from "@codemirror/commands";
import { lintGutter, lintKeymap, setDiagnostics } from "@codemirror/lint";
import { EditorState, RangeSet, StateEffect, StateField } from "@codemirror/state";
import { Decoration, EditorView, drawSelection, highlightActiveLine, hoverTooltip, keymap, lineNumbers } from "@codemirror/view";

const TYPING = 60, RESTING = 400;  // milliseconds before a check, and before suggestions are tried
const byId = (id) => document.getElementById(id);

// ── links: the program, deflated, behind the # of the address ───────────────────────────────────────────────────────────

async function through(stream, bytes) {
  return new Uint8Array(await new Response(new Blob([bytes]).stream().pipeThrough(stream)).arrayBuffer());
}

async function encoded(text) {
  const bytes = await through(new CompressionStream("deflate-raw"), new TextEncoder().encode(text));
  return btoa(String.fromCharCode(...bytes)).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}

async function decoded(hash) {
  const bytes = Uint8Array.from(atob(hash.replaceAll("-", "+").replaceAll("_", "/")), (c) => c.charCodeAt(0));
  return new TextDecoder("utf-8", { fatal: true }).decode(await through(new DecompressionStream("deflate-raw"), bytes));
}

// ── offsets: Python counts characters, the editor units of UTF-16 ───────────────────────────────────────────────────────

function unitsOf(text) {
  if (!/[\ud800-\udfff]/.test(text)) return (offset) => Math.min(offset, text.length);
  const starts = [];
  let at = 0;
  for (const character of text) { starts.push(at); at += character.length; }
  return (offset) => starts[offset] ?? text.length;
}

// ── the checker ─────────────────────────────────────────────────────────────────────────────────────────────────────────

let worker, ready = false, busy = false, wanted = null, asked = 0, timer = 0;
let known = { diagnostics: [], signatures: {}, modules: {}, inner: [], words: [] };
let units = unitsOf("");

function begin() {
  ready = busy = false;
  worker = new Worker("worker.js", { type: "module" });
  worker.onmessage = ({ data }) => ({ ready: onReady, checked: onChecked, failed: onFailed })[data.kind](data);
  worker.onerror = (event) => onFailed({ message: event.message });
}

function ask(tries) {
  wanted = { tries };
  if (!ready || busy) return;
  busy = true;
  worker.postMessage({ id: ++asked, text: view.state.doc.toString(), tries });
  sent = view.state.doc;
  wanted = null;
}
let sent = null;

function onReady() {
  ready = true;
  byId("status").textContent = "ready";
  ask(false);
}

function onChecked({ tries, answer, milliseconds }) {
  busy = false;
  if (sent === view.state.doc) {
    show(answer);
    if (!tries) {
      byId("status").textContent = `checked in ${Math.round(milliseconds)} ms`;
      byId("status").dataset.milliseconds = milliseconds;
      if (answer.diagnostics.some((d) => /^AX0[23]/.test(d.code))) {
        clearTimeout(timer);
        timer = setTimeout(ask, RESTING, true);
      }
    }
    document.body.dataset.state = tries ? "tried" : "checked";
  }
  if (wanted) ask(wanted.tries);
}

function onFailed({ message }) {
  byId("status").textContent = `the checker stopped: ${message}`;
  document.body.dataset.state = "failed";
  worker.terminate();
  if (ready) begin();  // a program that it cannot survive; another may be typed
}

// ── what is shown ───────────────────────────────────────────────────────────────────────────────────────────────────────

const recolour = StateEffect.define();
const colours = StateField.define({
  create: () => Decoration.none,
  update(marks, change) {
    marks = marks.map(change.changes);
    for (const effect of change.effects) if (effect.is(recolour)) marks = effect.value;
    return marks;
  },
  provide: (field) => EditorView.decorations.from(field),
});

function show(answer) {
  known = answer;
  units = unitsOf(view.state.doc.toString());
  const words = answer.words.filter(([start, end]) => start < end);
  const marks = RangeSet.of(words.map(([a, b, kind]) => Decoration.mark({ class: `w-${kind}` }).range(units(a), units(b))), true);
  view.dispatch({ effects: recolour.of(marks) });
  const found = answer.diagnostics.filter((d) => d.labels.length).map((d) => ({
    from: units(d.labels[0].start.offset),
    to: units(d.labels[0].end.offset),
    severity: d.severity,
    message: [d.message, d.labels[0].text].filter(Boolean).join(": "),
  }));
  view.dispatch(setDiagnostics(view.state, found));
  const signatures = Object.entries(answer.signatures).map(([name, text]) => element("pre", `sig ${name} : ${text}`));
  byId("signatures").replaceChildren(...(signatures.length ? signatures : [element("p", "none yet", "fine")]));
  const messages = answer.diagnostics.map(messageOf);
  byId("messages").replaceChildren(...(messages.length ? messages : [element("p", "nothing is wrong", "fine")]));
}

function element(tag, text, name = "") {
  const made = document.createElement(tag);
  made.textContent = text;
  made.className = name;
  return made;
}

function messageOf(diagnostic) {
  const box = element("div", "", `message ${diagnostic.severity}`);
  box.append(element("pre", diagnostic.rendered));
  for (const suggestion of diagnostic.suggestions.filter((s) => s.edits.length)) {
    const button = element("button", suggestion.text);
    button.onclick = (event) => {
      event.stopPropagation();
      const changes = suggestion.edits.map((e) => ({ from: units(e.start.offset), to: units(e.end.offset), insert: e.text }));
      if (sent === view.state.doc) view.dispatch({ changes });
      view.focus();
    };
    box.append(button);
  }
  box.onclick = () => {
    if (!diagnostic.labels.length || sent !== view.state.doc) return;
    view.dispatch({ selection: { anchor: units(diagnostic.labels[0].start.offset) }, scrollIntoView: true });
    view.focus();
  };
  return box;
}

function typeAt(view, at) {
  const word = view.state.wordAt(at);
  if (!word || sent !== view.state.doc) return null;
  const text = view.state.sliceDoc(word.from, word.to);
  const inner = known.inner.find(([start, end]) => units(start) === word.from && units(end) === word.to);
  const owner = /([A-Za-z_]\w*)\.$/.exec(view.state.sliceDoc(Math.max(0, word.from - 80), word.from))?.[1];
  const signature = owner ? known.modules[owner]?.[text] : known.signatures[text];
  const shown = inner?.[2] ?? (signature && `sig ${text} : ${signature}`);
  return shown ? { pos: word.from, end: word.to, create: () => ({ dom: element("pre", shown, "type") }) } : null;
}

function completions(context) {
  const before = context.matchBefore(/[A-Za-z_]\w*(\.\w*)?/);
  if (!before) return null;
  const [owner, member] = before.text.split(".");
  const options = (entries, boost) => Object.entries(entries).map(([label, detail]) => ({ label, detail, boost, type: "function" }));
  if (member !== undefined) {
    return owner in known.modules ? { from: before.from + owner.length + 1, options: options(known.modules[owner], 0) } : null;
  }
  const keywords = [...new Set(known.words.filter((w) => w[2] === "keyword").map(([a, b]) => context.state.sliceDoc(units(a), units(b))))];
  const modules = Object.keys(known.modules).map((label) => ({ label, type: "namespace" }));
  return { from: before.from, options: [...options(known.signatures, 1), ...modules, ...keywords.map((label) => ({ label, type: "keyword" }))] };
}

// ── the editor ──────────────────────────────────────────────────────────────────────────────────────────────────────────

const extensions = [
  lineNumbers(), lintGutter(), history(), drawSelection(), highlightActiveLine(), colours, hoverTooltip(typeAt, { hoverTime: 150 }),
  autocompletion({ override: [completions] }),
  keymap.of([...completionKeymap, ...defaultKeymap, ...historyKeymap, ...lintKeymap, indentWithTab]),
  EditorState.tabSize.of(2),
  EditorView.contentAttributes.of({ "aria-label": "program", spellcheck: "false" }),
  EditorView.updateListener.of((update) => {
    if (!update.docChanged) return;
    document.body.dataset.state = "typed";
    clearTimeout(timer);
    timer = setTimeout(() => { ask(false); remember(); }, TYPING);
  }),
];
const view = new EditorView({ parent: byId("editor"), extensions });

let own = "";  // the hash that this page has written
async function remember() {
  own = `#${await encoded(view.state.doc.toString())}`;
  history_.replaceState(null, "", own);
}
const history_ = window.history;

function open(text) {
  view.dispatch({ changes: { from: 0, to: view.state.doc.length, insert: text }, selection: { anchor: 0 } });
}

async function openLink() {
  if (location.hash === own && own) return;
  if (location.hash.length > 1) {
    try {
      return open(await decoded(location.hash.slice(1)));
    } catch {
      byId("status").textContent = "the link holds no program";
    }
  }
  if (!view.state.doc.length) open(examples[0].text);
}

const examples = await (await fetch("examples.json")).json();
byId("examples").replaceChildren(...examples.map((e, i) => Object.assign(element("option", e.name), { value: i })));
byId("examples").onchange = (event) => open(examples[event.target.value].text);
byId("link").onclick = async () => {
  await remember();
  await navigator.clipboard.writeText(location.href);
  byId("link").textContent = "copied";
  setTimeout(() => { byId("link").textContent = "copy link"; }, 1500);
};
window.onhashchange = openLink;
begin();
await openLink();
