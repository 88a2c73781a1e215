"""The playground in a real browser, served by Python's own file server. Needs Chromium and a page that was built of these sources:
`make docs`, or `axon playground DIR` and AXON_PLAYGROUND=DIR."""

from __future__ import annotations

import functools
import http.server
import json
import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from axon.tools.playground import building
from tests import ROOT
from tests.browser import opened
from tests.tools.playground.test_answers import SHUFFLED

PATIENCE = 180.0  # seconds, on a machine that does much else
MISTAKE = "fun f (x : f32[b, d]) (w : f32[3 * d, d]) = x @ w\n"


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    yield from opened(tmp_path_factory.mktemp("profile"))


@pytest.fixture(scope="module")
def folder(browser: Any) -> Path:
    folder = Path(os.environ.get("AXON_PLAYGROUND") or ROOT / "docs" / "_build" / "playground")
    mark = folder / building.MARK
    if not mark.is_file():
        pytest.skip("no playground was built")
    if json.loads(mark.read_text())["digest"] != building.digest():
        pytest.skip(f"the playground in {folder} is of other sources")
    return folder


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture(scope="module")
def address(folder: Path) -> Iterator[str]:
    handler = functools.partial(Quiet, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}/"
        server.shutdown()


@pytest.fixture(scope="module")
def page(browser: Any, address: str) -> Any:
    """The page, once its checker is ready."""
    browser.get(address)
    until(lambda: state(browser) == "checked", browser)
    return browser


def until(true: Callable[[], bool], browser: Any) -> None:
    end = time.monotonic() + PATIENCE
    while not true():
        assert time.monotonic() < end, browser.find_element("id", "status").text
        assert state(browser) != "failed", browser.find_element("id", "status").text
        time.sleep(0.02)


def state(browser: Any) -> str:
    return browser.execute_script("return document.body.dataset.state || ''")


def text_of(browser: Any, name: str) -> str:
    return browser.execute_script("return document.getElementById(arguments[0]).textContent", name)


def typed(browser: Any, text: str, wanted: str = "checked") -> float:
    """Put a text into the editor in place of what is there, as who pastes does; gives the milliseconds of its check."""
    before = text_of(browser, "status")
    browser.execute_script(
        "const c = document.querySelector('.cm-content'); c.focus(); document.execCommand('selectAll');"
        "const d = new DataTransfer(); d.setData('text/plain', arguments[0]);"
        "c.dispatchEvent(new ClipboardEvent('paste', {clipboardData: d, bubbles: true, cancelable: true}))",
        text,
    )
    assert before
    until(lambda: state(browser) in ((wanted,) if wanted == "tried" else ("checked", "tried")), browser)
    return float(browser.execute_script("return document.getElementById('status').dataset.milliseconds"))


def test_it_begins_with_an_example(page: Any) -> None:
    assert "sig attention : " in text_of(page, "signatures")
    assert text_of(page, "messages") == "nothing is wrong"
    options = page.find_elements("css selector", "#examples option")
    assert [o.text for o in options] == [e["name"] for e in building.examples()]
    assert page.find_elements("css selector", ".cm-line .w-keyword")


def test_a_mistake_and_its_mend(page: Any) -> None:
    typed(page, MISTAKE, "tried")
    assert "error[AX0301]: these sizes cannot agree" in text_of(page, "messages")
    assert page.find_elements("css selector", ".cm-lintRange-error")
    buttons = {b.text: b for b in page.find_elements("css selector", ".message button")}
    buttons["make it `w : f32[d, 3 * d]`"].click()
    until(lambda: text_of(page, "messages") == "nothing is wrong", page)
    assert text_of(page, "signatures") == "sig f : f32[b, d] -> f32[d, 3 * d] -> f32[b, 3 * d]"


def test_typing(page: Any) -> None:
    from selenium.webdriver import ActionChains

    typed(page, "fun f x = ")
    assert "expected an expression" in text_of(page, "messages")
    page.find_element("css selector", ".cm-content").click()
    ActionChains(page).send_keys("x + x").perform()
    until(lambda: text_of(page, "signatures") == "sig f : 'a[..s] -> 'a[..s]", page)
    assert text_of(page, "messages") == "nothing is wrong"


def test_a_check_is_quick(page: Any) -> None:
    """Under 300 ms, of each example, with nothing known of its text; on a machine that does nothing else."""
    if (os.getloadavg()[0]) > 0.75 * (os.cpu_count() or 1):
        pytest.skip("the machine does much else")
    for example in building.examples():
        times = [typed(page, example["text"] + "\n" * i) for i in range(1, 4)]
        assert min(times) < 300, (example["name"], times)


def test_offsets_of_characters_outside_the_plane(page: Any) -> None:
    typed(page, "(* 😀😀 *) fun f x = y\n")
    start, text = page.execute_script(
        "const e = document.querySelector('.cm-lintRange-error');"
        "return [e.closest('.cm-line').textContent.indexOf('y'), e.textContent]"
    )
    assert (start, text) == (21, "y")


def test_products_of_sizes(page: Any) -> None:
    """SymPy is there."""
    typed(page, SHUFFLED)
    assert text_of(page, "messages") == "nothing is wrong"


def test_a_link_holds_the_program(page: Any, address: str) -> None:
    text = "fun twice x = x + x  (* ü *)\n"
    typed(page, text)
    until(lambda: "#" in page.current_url, page)
    time.sleep(0.3)
    link = page.current_url
    page.get("about:blank")
    page.get(link)
    until(lambda: text_of(page, "signatures") == "sig twice : 'a[..s] -> 'a[..s]", page)
    lines = page.find_elements("css selector", ".cm-line")
    assert lines[0].text == text.rstrip()


def test_what_a_checker_does_not_survive_is_no_end(page: Any) -> None:
    """A text that is as deep as can be: the page goes on, whatever becomes of the checker."""
    deep = "fun f x = " + "(" * 390 + "x" + ")" * 390 + "\n"
    page.execute_script("window.worked = 0")
    typed(page, deep)
    typed(page, "fun f x = x\n")
    assert text_of(page, "messages") == "nothing is wrong"


def test_nothing_is_fetched_from_elsewhere(browser: Any, address: str) -> None:
    browser.get_log("performance")
    browser.get(address)
    until(lambda: state(browser) == "checked", browser)
    events = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    asked = {e["params"]["request"]["url"] for e in events if e["method"] == "Network.requestWillBeSent"}
    assert all(url.startswith((address, "data:", "blob:", "chrome://")) for url in asked), asked
    complaints = [entry for entry in browser.get_log("browser") if entry["level"] == "SEVERE"]
    assert complaints == []
