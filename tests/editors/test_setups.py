"""The set-ups of docs/editors.md, in the editors that are installed: each shows an error that the server finds."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
import tomllib
from pathlib import Path

import pytest

from tests import ROOT

PAGE = (ROOT / "docs" / "editors.md").read_text()
PROGRAM = "fun f (x : f32[b, d]) (w : f32[4 * d, d]) = x @ w\n"
MESSAGE = "these sizes cannot agree"


def snippets(language: str) -> list[str]:
    return re.findall(rf"```{language}[^\n]*\n(.*?)```", PAGE, re.DOTALL)


def run(folder: Path, *command: str) -> str:
    """What an editor says that opens `model.axon` with the `axon` of this environment on its path."""
    (folder / "model.axon").write_text(PROGRAM)
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    there = {**os.environ, "PATH": path, "HOME": str(folder), "XDG_STATE_HOME": str(folder)}
    done = subprocess.run(command, cwd=folder, env=there, capture_output=True, text=True, timeout=60, check=False)
    return done.stdout + done.stderr


# What 0.8 added, for an older one: enough that the set-up by hand runs there.
OLDER = """\
vim.g.do_filetype_lua = 1
if not vim.fs then vim.fs = { dirname = function(f) return vim.fn.fnamemodify(f, ":p:h") end } end
if not vim.lsp.start then
  vim.lsp.start = function(c) vim.lsp.buf_attach_client(0, vim.lsp.start_client(c)) end
end
"""
SHOW = """\
vim.wait(20000, function() return #vim.diagnostic.get(0) > 0 end, 50)
for _, d in ipairs(vim.diagnostic.get(0)) do print(d.lnum .. ":" .. d.col .. " " .. d.message) end
"""


@pytest.mark.skipif(shutil.which("nvim") is None, reason="there is no Neovim here")
def test_neovim(tmp_path: Path) -> None:
    now, by_hand = snippets("lua")
    (tmp_path / "now.lua").write_text(now)
    recent = run(
        tmp_path, "nvim", "--headless", "-u", "NONE", "-c", "lua print(vim.lsp.config and 'recent' or 'older')", "-c", "qa!"
    )
    lines = [f"assert(loadfile({str(tmp_path / 'now.lua')!r}))", now]
    if "recent" not in recent:
        lines = [OLDER, lines[0], now.splitlines()[0], by_hand]
    (tmp_path / "init.lua").write_text("\n".join(lines))
    (tmp_path / "show.lua").write_text(SHOW)
    said = run(tmp_path, "nvim", "--headless", "-u", "init.lua", "model.axon", "-c", "luafile show.lua", "-c", "qa!")
    assert f"0:46 {MESSAGE}" in said, said


ELISP = """\
(setq eglot-sync-connect 20)
(unless (require 'eglot nil t) (message "no eglot") (kill-emacs))
(load (expand-file-name "init.el") nil t)
(find-file "model.axon")
(run-hooks 'post-command-hook)
(let ((n 0)) (while (and (< n 100) (null (flymake-diagnostics))) (accept-process-output nil 0.2) (setq n (1+ n))))
(dolist (d (flymake-diagnostics)) (message "%s %s" (flymake-diagnostic-beg d) (flymake-diagnostic-text d)))
(font-lock-ensure)
(message "fun is a %s" (get-text-property 1 'face))
(goto-char (point-max)) (insert "(* a (* b *) c *)") (goto-char (- (point-max) 3))
(message "inside a comment: %s" (nth 4 (syntax-ppss)))
(set-buffer-modified-p nil)
"""


@pytest.mark.skipif(shutil.which("emacs") is None, reason="there is no Emacs here")
def test_emacs(tmp_path: Path) -> None:
    (tmp_path / "init.el").write_text(snippets("elisp")[0])
    (tmp_path / "show.el").write_text(ELISP)
    (tmp_path / ".git").mkdir()
    (tmp_path / ".emacs.d").mkdir()
    said = run(tmp_path, "emacs", "--batch", "-q", "-l", "show.el")
    if "no eglot" in said:
        pytest.skip("this Emacs has no Eglot")
    assert re.search(rf"^47 .*{MESSAGE}", said, re.MULTILINE), said
    assert "fun is a font-lock-keyword-face" in said
    assert "inside a comment: 1" in said


def on_screen(folder: Path, command: list[str], seen: tuple[str, ...], environment: dict[str, str]) -> str:
    """What a program draws in a terminal, once all of this can be seen there, or after a while."""
    pexpect, pyte = pytest.importorskip("pexpect"), pytest.importorskip("pyte")

    class Screen(pyte.Screen):  # type: ignore[misc, name-defined]
        def report_device_status(self, mode: int = 0, private: bool = False) -> None:
            """Asked with `private`, terminals tell what pyte does not know of."""
            if not private:
                super().report_device_status(mode)

    screen = Screen(160, 40)
    stream = pyte.ByteStream(screen)
    process = pexpect.spawn(command[0], command[1:], env=environment, cwd=str(folder), dimensions=(40, 160))
    screen.write_process_input = process.send
    deadline = time.monotonic() + 60.0
    text = ""
    while time.monotonic() < deadline and not all(piece in text for piece in seen):
        try:
            stream.feed(process.read_nonblocking(1 << 16, timeout=0.5))
        except pexpect.TIMEOUT:
            process.send("l")  # what comes late is drawn with the next key
        except pexpect.EOF:
            break
        text = "\n".join(screen.display)
    process.close(force=True)
    return text


@pytest.mark.skipif(shutil.which("hx") is None, reason="there is no Helix here")
def test_helix(tmp_path: Path) -> None:
    there = tmp_path / "helix"
    there.mkdir()
    for name, text in zip(("languages.toml", "config.toml"), snippets("toml"), strict=True):
        (there / name).write_text(text)
    (tmp_path / "model.axon").write_text(f"fun g (a : f32[n, k]) = a\n{PROGRAM}")
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path), "TERM": "xterm-256color"}
    health = subprocess.run(["hx", "--health", "axon"], env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert re.search(r"axon: .*bin/axon", health.stdout), health.stdout
    wanted = (MESSAGE, "f32[n, k]) : f32[n, k] = a")
    said = on_screen(tmp_path, ["hx", "model.axon"], wanted, environment)
    assert all(piece in said for piece in wanted), said


def test_the_set_up_for_helix_has_its_keys() -> None:
    """Where Helix is not at hand: the keys are those of its manual."""
    languages, config = map(tomllib.loads, snippets("toml"))
    assert set(languages) == {"language-server", "language"}
    assert languages["language-server"]["axon"] == {"command": "axon", "args": ["lsp"]}
    (axon,) = languages["language"]
    assert set(axon) <= {"name", "scope", "file-types", "roots", "block-comment-tokens", "indent", "language-servers"}
    assert axon["file-types"] == ["axon"]
    assert axon["language-servers"] == ["axon"]
    assert config == {"editor": {"lsp": {"display-inlay-hints": True}}}
