"""The page of ``--html``: its contents, text that it must not have, and its look in a real browser."""

from __future__ import annotations

import html
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import fields
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("graphlay", reason="the libraries for pages are not installed")
pytest.importorskip("pygal", reason="the libraries for pages are not installed")
pytest.importorskip("jinja2", reason="the libraries for pages are not installed")

from autofix.child.recorded import Live, Pass, RunError, Step
from autofix.codemods.facts.base import Span
from autofix.evidence.witness import Evidence, Holder, Site
from autofix.proof.prove import Certificate, Outcome, Point, RunRecord, Verdict
from autofix.report import page
from autofix.report.chart import decades, thinned
from autofix.report.drawing import drawing
from autofix.report.view import Place, Story, View, stories_of

ROOT = Path(__file__).parents[1]
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
BROWSER = next(filter(None, map(shutil.which, BROWSERS)), None)
in_a_browser = pytest.mark.skipif(BROWSER is None, reason=f"no browser: none of {', '.join(BROWSERS)} is installed")

HOSTILE = "<script>document.title = 'taken over'</script><img src=http://example.com/x.png onerror=alert(1)>\"'&amp;"
SOURCE = f"""\
import torch
\tstore = []  # tabs, and wide: 漢字
for step in range(10):
    hidden = encoder(point)  # {HOSTILE}
    store.append(hidden)
    text = '''{HOSTILE}
    '''
    loss = head(hidden) + store[0].mean()
    loss.backward()
"""
PATCH = f"""\
--- a/train.py
+++ b/train.py
@@ -4,4 +4,4 @@
     hidden = encoder(point)  # {HOSTILE}
-    store.append(hidden)
+    store.append(hidden.detach())
     text = '''{HOSTILE}
     '''
"""


def span(line: int, start: int, end: int) -> Span:
    return Span("train.py", line, start, line, end)


def backward(number: int, loss: float, *, line: int = 9, error: RunError | None = None) -> Pass:
    """A pass as far as a page looks at it."""
    known = {"number": number, "kind": "backward", "losses": (loss,), "file": "train.py", "line": line, "error": error}
    others: dict[str, Any] = {field.name: None for field in fields(Pass)}
    return Pass(**(others | known))


def node(number: int, operation: str, line: int, passes: int, state: str = "fresh") -> dict[str, Any]:
    frame = {"file": "train.py", "function": "<module>", "first_line": 1, "line": line, "end_line": line}
    frame |= {"column": 4, "end_column": 40}
    return {"id": number, "operation": operation, "frames": [frame], "passes": passes, "state": state}


def leaf(number: int, name: str) -> dict[str, Any]:
    bare = {"id": number, "operation": "torch::autograd::AccumulateGrad", "frames": [], "passes": None}
    return bare | {"state": "leaf", "name": name, "shape": [5, 3]}


GRAPH = {
    "nodes": [
        node(0, "AddBackward0", 8, 1),
        node(1, "MeanBackward0", 8, 1),
        node(2, f"Odd{HOSTILE}Backward0", 4, 0, "freed"),
        node(3, "TBackward0", 4, 0, "freed"),
        leaf(4, f"encoder.{HOSTILE}"),
        node(5, "AddmmBackward0", 8, 1),
    ],
    "edges": [
        {"from": 0, "to": 1},
        {"from": 1, "to": 2},
        {"from": 2, "to": 3},
        {"from": 3, "to": 4},
        {"from": 0, "to": 5, "skipped": 3},
    ],
    "guilty": [1, 2],
    "left_out": 7,
}
ERROR = RunError("RuntimeError", f"Trying to backward through the graph a second time {HOSTILE}", 9)


def certificate(*, proved: bool = True) -> Certificate:
    before = RunRecord(Outcome.RAISED, ERROR, (backward(1, 2.0), backward(2, 1.5, error=ERROR)), seconds=0.4)
    after = RunRecord(Outcome.STOPPED, passes=tuple(backward(n, 2 / n) for n in range(1, 22)), seconds=1.0)
    nan = backward(5, float("nan"))
    reference = RunRecord(Outcome.STOPPED, passes=(*(backward(n, 2.2 / n) for n in range(1, 5)), nan), seconds=1.0)
    verdict = Verdict.PASSED if proved else Verdict.FAILED
    points = (Point(1, "fails before", Verdict.PASSED, HOSTILE), Point(2, "clean after", verdict, "20 steps"))
    return Certificate(points, before, after, reference)


def evidence(kind: str = "stale graph", **details: Any) -> Evidence:
    sites = {
        "made": Site((span(4, 13, 27),), ("<module>",)),
        "used": Site((span(8, 26, 41),), ("<module>",)),
        "freed": Site((span(9, 4, 19),), ("<module>",)),
        "failed": Site((Span("main.py", 3, 0, 3, 6), span(9, 4, 19)), (f"f{HOSTILE}", "train")),
    }
    holders = (Holder("store", "list", "train.py", "<module>"),)
    return Evidence(kind, sites, holders, {"graph": GRAPH, "freed_by_pass": 1} | details)


def view(**others: Any) -> View:
    story = Story(
        "AF101",
        f"`store` carries the graph {HOSTILE}",
        (
            Place("loop", Span("train.py", 3, 0, 9, 19), "across iterations of this loop"),
            Place("made", span(4, 13, 27), "the graph is made here"),
            Place("kept", span(5, 4, 24), "kept here", is_cause=True),
            Place("used", span(8, 26, 41), "used here"),
            Place("freed", span(9, 4, 19), "this backward frees the graph"),
            Place("failed", span(9, 4, 19), f"this fails {HOSTILE}"),
        ),
        f"store in `store` without the graph {HOSTILE}",
    )
    given: dict[str, Any] = {
        "title": f"train.py{HOSTILE}",
        "stories": (story,),
        "sources": {"train.py": SOURCE},
        "patch": PATCH,
        "certificate": certificate(),
        "refused": (f"retain_graph: {HOSTILE}",),
        "note": HOSTILE,
        "evidence": (evidence(),),
    }
    return View(**(given | others))


class Page(HTMLParser):
    """Contents of a page: elements with their attributes, and the text in them."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]

    @property
    def sections(self) -> list[str | None]:
        return [section.get("id") for section in self.all("section")]


def shown(**others: Any) -> Page:
    return Page(page.render(view(**others)))


# What stands in it


def test_the_page_tells_everything() -> None:
    told = shown()
    assert told.sections == ["story", "patch", "proof", "note", "refused", "losses", "graph"]
    assert "the graph is made here" in told.text
    assert "hidden.detach()" in told.text
    assert re.search(r"clean after\s*✓\s*passed\s*20 steps", told.text)
    assert "freed by pass 1" in told.text
    assert "7 more nodes" in told.text
    assert "漢字" in told.text


def test_nothing_of_a_script_becomes_markup() -> None:
    told = shown()
    assert not {"script", "img", "iframe", "link", "object"} & {name for name, _ in told.elements}
    for name, attributes in told.elements:
        assert not [key for key in attributes if key.startswith("on")], name
        assert not {"src", "href", "xlink:href", "action"} & set(attributes), name
    assert told.text.count("<script>") >= 12  # it is there to be read


def test_the_page_may_load_nothing_and_run_nothing() -> None:
    told = shown()
    (policy,) = [meta["content"] for meta in told.all("meta") if "http-equiv" in meta]
    assert policy == "default-src 'none'; style-src 'unsafe-inline'"
    style = re.search(r"<style>(.*?)</style>", page.render(view()), re.DOTALL)
    assert style is not None
    assert "url(" not in style[1]
    assert "@import" not in style[1]


def test_what_is_not_known_is_left_out() -> None:
    told = shown(certificate=None, patch="", refused=(), note="", evidence=())
    assert told.sections == ["story"]
    assert shown(stories=(), evidence=(), refused=(), note="").sections == ["patch", "proof", "losses"]


def test_a_patch_that_is_not_proved_does_not_look_proved() -> None:
    assert 'class="verdict open"' in page.render(view(certificate=certificate(proved=False)))
    assert 'class="verdict open"' in page.render(view(certificate=None))
    assert 'class="verdict passed"' in page.render(view())
    nothing = page.render(view(certificate=None, patch="", fails=True))
    assert '<p class="verdict open">No repair is known.</p>' in nothing


def test_several_files_have_an_excerpt_each() -> None:
    story = view().stories[0]
    elsewhere = Place("changed", Span("lib/net.py", 1, 0, 1, 3), "changed there")
    two = Story(story.code, story.message, (*story.places, elsewhere))
    told = page.render(view(stories=(two,), sources={"train.py": SOURCE, "lib/net.py": "abc = 1\n"}))
    captions = re.findall(r'<figure class="source">\s*<figcaption>(.*?)</figcaption>', told)
    assert captions == ["train.py", "lib/net.py"]


def test_where_reading_shows_nothing_the_run_is_told() -> None:
    (story,) = stories_of((), (evidence(),))
    assert (story.code, story.holders) == ("AF100", ("store",))
    assert [place.role for place in story.places] == ["made", "freed", "used", "failed"]
    assert story.cause is not None and story.cause.role == "made"
    told = shown(stories=(story,))
    assert "called from main.py:3:1" in told.text
    assert "held by" in told.text


def test_files_of_one_name_are_told_apart() -> None:
    places = tuple(Place("used", Span(path, 7, 0, 7, 1), "used here") for path in ("a/net.py", "b/net.py", "b/only.py"))
    told = shown(stories=(Story("AF100", "message", places),))
    assert re.findall(r"\S+:7:1", told.text) == ["a/net.py:7:1", "b/net.py:7:1", "only.py:7:1"]


def test_a_place_whose_file_is_not_at_hand_is_told_without_source() -> None:
    assert "train.py:4:14" in shown(sources={}).text


# Its pictures


def test_a_transposed_weight_is_the_weight() -> None:
    drawn = drawing(view())
    assert drawn is not None
    assert [box.state for box in drawn.boxes] == ["fresh", "fresh", "freed", "leaf", "fresh"]
    assert [(edge.start, edge.end, edge.is_guilty, edge.label) for edge in drawn.edges] == [
        (0, 1, False, ""),
        (1, 2, True, "freed by pass 1"),
        (2, 3, False, ""),
        (0, 4, False, "3 more"),
    ]


def test_boxes_do_not_overlap_and_lie_within_the_picture() -> None:
    drawn = drawing(view())
    assert drawn is not None
    for index, box in enumerate(drawn.boxes):
        assert 0 < box.x < drawn.width and 0 < box.y < drawn.height
        for other in drawn.boxes[index + 1 :]:
            assert abs(box.x - other.x) >= 190 or abs(box.y - other.y) >= (box.height + other.height) / 2


def test_what_overwrote_a_value_is_in_the_picture() -> None:
    changed = {"made": Site((span(4, 4, 10),), ("",)), "changed": Site((span(5, 4, 24),), ("",))}
    graph = GRAPH | {"guilty": [1]}
    details = {"graph": graph, "by": "add_", "versions": {"expected": 0, "found": 1}}
    drawn = drawing(view(evidence=(Evidence("overwritten", changed, (), details),)))
    assert drawn is not None
    (guilty,) = [edge for edge in drawn.edges if edge.is_guilty]
    assert drawn.boxes[guilty.start].lines == ("line 5", "store.append(hidden)", "version 1, not 0")
    assert guilty.end == 1


def test_losses_of_several_calls_have_a_chart_each() -> None:
    two = tuple(backward(n, 1.0 + n, line=9 if n % 2 else 12) for n in range(1, 9))
    run = RunRecord(Outcome.FINISHED, passes=two)
    told = shown(certificate=Certificate(certificate().points, run, run, run))
    assert "backward at train.py:9" in told.text
    assert "backward at train.py:12" in told.text


@pytest.mark.parametrize(
    "losses", [(0.0, 0.0), (-1.0, 3.0), (1e-9, 1e9), (float("nan"),), (float("inf"), 1.0), (), (1.0,)], ids=str
)
def test_any_losses_can_be_drawn(losses: tuple[float, ...]) -> None:
    run = RunRecord(Outcome.FINISHED, passes=tuple(backward(n, loss) for n, loss in enumerate(losses, 1)))
    page.render(view(certificate=Certificate(certificate().points, run, run)))


def test_long_runs_are_thinned_out() -> None:
    run = RunRecord(Outcome.FINISHED, passes=tuple(backward(n, 1 / n) for n in range(1, 5001)))
    assert len(page.render(view(certificate=Certificate(certificate().points, run, run)))) < 120_000


def test_of_a_long_run_the_failure_is_not_thinned_out() -> None:
    assert thinned((None, None, None, None, 4.5), 3) == [None, 4.5]
    assert thinned((1.0, 2.0, 3.0, 4.0), 3) == [1.0, 4.0]


def steps(*nodes: int) -> RunRecord:
    others: dict[str, Any] = {field.name: None for field in fields(Step)}
    return RunRecord(Outcome.FINISHED, updates=tuple(Step(**(others | {"live": Live(n, n, n)})) for n in nodes))


def test_graphs_that_are_kept_have_a_chart_and_others_none() -> None:
    flat, grown = steps(3, 9, 9, 9, 9, 9), steps(3, 9, 9, 18, 27, 36)
    assert "graphs that are kept" not in shown(certificate=Certificate(certificate().points, flat, flat)).text
    told = shown(certificate=Certificate(certificate().points, grown, flat))
    assert "before: from 3 to 36 in 6 steps; after: from 3 to 9 in 6 steps" in told.text


def test_a_logarithmic_axis_has_marks_around_its_curve() -> None:
    assert decades({"after": (0.03, None, 2.5)}) == [0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0]
    assert decades({"after": (2e-3, 3.0)}) == [1e-3, 1e-2, 0.1, 1.0, 10.0]


# In a browser

HARNESS = """<!DOCTYPE html><meta charset="utf-8"><body style="margin:0">
<iframe id="page" src="PAGE" style="width:WIDTHpx;height:3000px;border:0"></iframe><pre id="told"></pre>
<script>
const frame = document.getElementById("page");
frame.onload = () => {
  const inner = frame.contentDocument, of = frame.contentWindow;
  const seen = element => { const box = element.getBoundingClientRect(); return box.width > 0 || box.height > 0; };
  const numbers = colour => (colour.match(/[\\d.]+/g) || [0, 0, 0, 0]).map(Number);
  const opaque = colour => colour !== "none" && colour !== "transparent" && (numbers(colour)[3] ?? 1) > 0;
  const light = colour => numbers(colour).slice(0, 3).map(c => c / 255)
    .map(c => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)
    .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
  const ground = element => {
    for (let one = element; one; one = one.parentElement) {
      const box = one.localName === "g" && one.querySelector(":scope > rect");
      if (box && opaque(of.getComputedStyle(box).fill)) return of.getComputedStyle(box).fill;
      if (opaque(of.getComputedStyle(one).backgroundColor)) return of.getComputedStyle(one).backgroundColor;
    }
    return "rgb(255, 255, 255)";
  };
  const texts = [...inner.querySelectorAll("body *")].filter(one => seen(one)
    && !one.closest(".unseen, .ghost") && [...one.childNodes].some(n => n.nodeType === 3 && n.data.trim()));
  const contrast = one => {
    const style = of.getComputedStyle(one);
    const pair = [light(one.ownerSVGElement ? style.fill : style.color), light(ground(one))].sort((a, b) => b - a);
    return [(pair[0] + 0.05) / (pair[1] + 0.05), one.outerHTML.slice(0, 120)];
  };
  const shapes = [...inner.querySelectorAll(
    ".drawing > path, .drawing g > rect, .drawing text, .chart .series path, .chart .series circle")];
  document.getElementById("told").textContent = JSON.stringify({
    title: inner.title,
    sections: [...inner.querySelectorAll("section")].map(one => [one.id, seen(one)]),
    shapes: shapes.length,
    empty: shapes.filter(one => !seen(one)).map(one => one.outerHTML.slice(0, 120)),
    red: [...inner.querySelectorAll(".edge.guilty")].map(one => of.getComputedStyle(one).stroke),
    ground: light(of.getComputedStyle(inner.body).backgroundColor),
    contrast: texts.map(contrast).sort((a, b) => a[0] - b[0])[0],
    requests: of.performance.getEntriesByType("resource").map(one => one.name),
    scripts: inner.scripts.length,
    tooWide: inner.documentElement.scrollWidth - inner.documentElement.clientWidth,
    cut: [...inner.querySelectorAll("svg.drawing text")].filter(one => {
      const box = one.parentElement.querySelector("rect");
      return box && one.getBoundingClientRect().width > box.getBoundingClientRect().width;
    }).map(one => one.textContent),
  });
};
</script>"""


@pytest.fixture(scope="module")
def browse(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., dict[str, Any]]]:
    """Opens a page from disk in a frame of another one, which measures it from outside."""
    folder = tmp_path_factory.mktemp("browser")

    def look(text: str, *, dark: bool = False, width: int = 1200) -> dict[str, Any]:
        (folder / "page.html").write_text(text, encoding="utf-8")
        harness = HARNESS.replace("PAGE", "page.html").replace("WIDTH", str(width))
        (folder / "harness.html").write_text(harness, encoding="utf-8")
        command = [
            str(BROWSER),
            *("--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"),
            *("--disable-component-update", "--disable-sync", "--allow-file-access-from-files"),
            f"--user-data-dir={folder / 'profile'}",
            f"--blink-settings=preferredColorScheme={0 if dark else 1}",
            f"--window-size={width + 20},3000",
            *("--virtual-time-budget=5000", "--dump-dom", (folder / "harness.html").as_uri()),
        ]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
        found = re.search(r'<pre id="told">(.+?)</pre>', done.stdout, re.DOTALL)
        assert found is not None, done.stdout[-2000:] + done.stderr[-2000:]
        told: dict[str, Any] = json.loads(html.unescape(found[1]))
        return told

    yield look
    shutil.rmtree(folder, ignore_errors=True)


@in_a_browser
@pytest.mark.parametrize("width", [1440, 390])
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_a_browser_shows_it_all(browse: Callable[..., dict[str, Any]], dark: bool, width: int) -> None:
    told = browse(page.render(view()), dark=dark, width=width)
    assert told["sections"] == [
        [name, True] for name in ("story", "patch", "proof", "note", "refused", "losses", "graph")
    ]
    assert told["shapes"] > 20
    assert told["empty"] == []
    assert told["cut"] == []
    assert told["requests"] == []
    assert told["scripts"] == 0
    assert "taken over" not in told["title"].replace(HOSTILE, "")
    assert told["tooWide"] == 0
    assert told["ground"] < 0.05 if dark else told["ground"] > 0.9
    assert told["contrast"][0] >= 4.5, told["contrast"]
    assert told["red"] == ["rgb(255, 138, 128)" if dark else "rgb(179, 32, 28)"]


@in_a_browser
def test_the_page_of_a_real_run(browse: Callable[..., dict[str, Any]], tmp_path: Path) -> None:
    command = [sys.executable, "-m", "autofix", "run", "--html", str(tmp_path / "page.html"), "broken.py"]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    subprocess.run(command, cwd=ROOT / "fixtures" / "out_of_place", env=environment, capture_output=True, check=True)
    told = browse((tmp_path / "page.html").read_text(encoding="utf-8"))
    assert [name for name, seen in told["sections"] if seen] == ["story", "patch", "proof", "losses", "graph"]
    assert told["shapes"] > 30
    assert (told["empty"], told["cut"], told["requests"], told["tooWide"]) == ([], [], [], 0)
    assert told["contrast"][0] >= 4.5, told["contrast"]
    assert len(told["red"]) == 1
