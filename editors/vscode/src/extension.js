// Starts `axon lsp` and lets the editor talk to it. Everything else is the server's.
"use strict";

const fs = require("node:fs");
const path = require("node:path");
const vscode = require("vscode");
const { LanguageClient } = require("vscode-languageclient/node");

/** @type {LanguageClient | undefined} */
let client;

/** The command line of the server: what the settings say, else the `axon` of the workspace's environment, else that of the PATH. */
function command() {
  const configured = vscode.workspace.getConfiguration("axon").get("command", []);
  if (configured.length > 0) return configured;
  const name = process.platform === "win32" ? path.join("Scripts", "axon.exe") : path.join("bin", "axon");
  for (const folder of vscode.workspace.workspaceFolders ?? []) {
    for (const environment of [".venv", "venv"]) {
      const found = path.join(folder.uri.fsPath, environment, name);
      if (fs.existsSync(found)) return [found, "lsp"];
    }
  }
  return ["axon", "lsp"];
}

async function start() {
  if (!vscode.workspace.isTrusted) return;
  const [program, ...args] = command();
  client = new LanguageClient(
    "axon",
    "Axon",
    { command: program, args },
    {
      documentSelector: [{ language: "axon" }],
      synchronize: { fileEvents: vscode.workspace.createFileSystemWatcher("**/*.axon") },
    },
  );
  try {
    await client.start();
  } catch (error) {
    client = undefined;
    const settings = "Open settings";
    const chosen = await vscode.window.showErrorMessage(
      `Axon: \`${program}\` could not be started (${error.message ?? error}). In a clone of Axon, pip install '.[lsp]', or say where it is.`,
      settings,
    );
    if (chosen === settings) await vscode.commands.executeCommand("workbench.action.openSettings", "axon.command");
  }
}

async function stop() {
  const running = client;
  client = undefined;
  await running?.stop();
}

async function activate(context) {
  context.subscriptions.push(
    vscode.commands.registerCommand("axon.restart", async () => {
      await stop();
      await start();
    }),
    vscode.workspace.onDidGrantWorkspaceTrust(start),
    vscode.workspace.onDidChangeConfiguration(async (change) => {
      if (change.affectsConfiguration("axon.command")) {
        await stop();
        await start();
      }
    }),
  );
  await start();
}

module.exports = { activate, deactivate: stop };
