"""The part of the graph that matters, placed by graphlay: boxes and lines for the page to draw."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import graphlay

from autofix.evidence.witness import Evidence
from autofix.report.story import columns, cut
from autofix.report.view import View, quoted, source_lines, under

WIDTH, HEIGHT = 190.0, 62.0
LETTERS, CAPITALS = 25, 20
"""Columns of source and of a title that fit into a box."""
MARGIN = 12.0
SPACING = {"layer_gap": 34.0, "node_gap": 22.0, "dummy_gap": 18.0}
STATES = {
    "fresh": "made in this pass",
    "old": "made before an earlier pass",
    "freed": "freed by an earlier pass",
    "overwritten": "its saved value was overwritten",
    "change": "the change in place",
    "leaf": "parameter or input",
}
"""States of a box, and their text in the legend."""
TRANSPOSED = "TBackward0"


@dataclass(frozen=True)
class Box:
    """One node: its text, top down, and its place."""

    number: int
    state: str
    title: str
    lines: tuple[str, ...]
    hint: str = ""
    """All that is known of it, shown when a reader points at it."""
    is_guilty: bool = False
    x: float = 0.0
    y: float = 0.0
    height: float = HEIGHT


@dataclass(frozen=True)
class Edge:
    """A line from box to box, and its label."""

    start: int
    end: int
    is_guilty: bool = False
    label: str = ""
    points: tuple[tuple[float, float], ...] = ()

    @property
    def path(self) -> str:
        return "M" + " L".join(f"{x:.1f} {y:.1f}" for x, y in self.points)

    @property
    def middle(self) -> tuple[float, float]:
        """Place of a label: the middle of the longest piece."""
        pieces = list(zip(self.points, self.points[1:], strict=False))
        (ax, ay), (bx, by) = max(pieces, key=lambda piece: distance(*piece))
        return (ax + bx) / 2, (ay + by) / 2


@dataclass(frozen=True)
class Drawing:
    boxes: tuple[Box, ...]
    edges: tuple[Edge, ...]
    width: float
    height: float
    description: str
    """Description of the picture in words."""
    left_out: int = 0

    @property
    def legend(self) -> dict[str, str]:
        return {state: said for state, said in STATES.items() if any(box.state == state for box in self.boxes)}


def drawing(view: View) -> Drawing | None:
    """The picture that the run witness took, if it has taken one."""
    evidence = view.pictured
    if evidence is None:
        return None
    picture = without_transposes(evidence.details["graph"])
    nodes, guilty = picture["nodes"], picture["guilty"]
    now = max((node["passes"] for node in nodes if node["passes"] is not None), default=0)
    boxes = [box_of(node, node["id"] in guilty, now, view) for node in nodes]
    edges = [edge_of(edge, guilty, evidence) for edge in picture["edges"]]
    if len(guilty) == 1 and evidence.kind == "overwritten" and "changed" in evidence.sites:
        boxes.append(change_of(evidence, len(boxes), view))
        edges.append(Edge(boxes[-1].number, guilty[0], is_guilty=True, label="overwrites"))
    return placed(boxes, edges, description(evidence, boxes, edges), picture["left_out"])


def without_transposes(picture: Mapping[str, Any]) -> dict[str, Any]:
    """*picture*, every weight's transposition taken for the weight itself: linear layers are full of them."""
    nodes = {node["id"]: node for node in picture["nodes"]}
    under_it: dict[int, list[int]] = {}
    for edge in picture["edges"]:
        under_it.setdefault(edge["from"], []).append(edge["to"])
    stands_for = {
        number: below[0]
        for number, below in under_it.items()
        if nodes[number]["operation"] == TRANSPOSED
        and number not in picture["guilty"]
        and [nodes[one]["state"] for one in below] == ["leaf"]
    }
    edges = {
        (edge["from"], stands_for.get(edge["to"], edge["to"])): edge
        for edge in picture["edges"]
        if edge["from"] not in stands_for
    }
    kept = {number: new for new, number in enumerate(number for number in nodes if number not in stands_for)}
    return {
        "nodes": [{**nodes[number], "id": new} for number, new in kept.items()],
        "edges": [{**edge, "from": kept[start], "to": kept[end]} for (start, end), edge in edges.items()],
        "guilty": [kept[number] for number in picture["guilty"]],
        "left_out": picture["left_out"],
    }


def box_of(node: Mapping[str, Any], is_guilty: bool, now: int, view: View) -> Box:
    if node["state"] == "leaf":
        shape = " x ".join(map(str, node["shape"])) or "scalar"
        name = node["name"] or "leaf"
        return Box(node["id"], "leaf", tail(name, CAPITALS), (shape,), f"{name}, {shape}", is_guilty, height=44.0)
    frame = node["frames"][-1] if node["frames"] else None
    state = "old" if node["state"] == "fresh" and node["passes"] is not None and node["passes"] < now else node["state"]
    operation = re.sub(r"Backward\d*$", "", node["operation"].rpartition("::")[2])
    if frame is None:
        return Box(node["id"], state, cut(operation, CAPITALS), (), node["operation"], is_guilty, height=30.0)
    where = f"{frame['file']}:{frame['line']}"
    code = source_of(frame, view)
    hint = f"{node['operation']}, {where}: {code}"
    return Box(node["id"], state, cut(operation, CAPITALS), (at(frame), cut(code, LETTERS)), hint, is_guilty)


def tail(name: str, width: int) -> str:
    """*name*, or its end, which says more than its beginning: a module's path ends with the parameter."""
    return name if columns(name) <= width else "..." + cut(name[::-1], width).removesuffix("...")[::-1]


def at(frame: Mapping[str, Any]) -> str:
    """The file's name and the line; the line alone where both do not fit."""
    name = str(frame["file"]).replace("\\", "/").rpartition("/")[2]
    both = f"{name}:{frame['line']}"
    return both if columns(both) <= LETTERS else f"line {frame['line']}"


def source_of(frame: Mapping[str, Any], view: View) -> str:
    """The source of a frame's place, as far as its first line goes.  Its columns count bytes."""
    lines = source_lines(view.sources.get(under(view.folder, frame["file"]), ""))
    if not 1 <= frame["line"] <= len(lines) or frame["column"] is None:
        return ""
    line = lines[frame["line"] - 1].encode()
    end = frame["end_column"] if frame["end_line"] == frame["line"] else None
    text: str = line[frame["column"] : end].decode(errors="replace")
    return text.strip()


def change_of(evidence: Evidence, number: int, view: View) -> Box:
    """The box of the call that overwrote a tensor saved by a node."""
    span = evidence.sites["changed"].span
    code = quoted(span, view.sources)
    versions = evidence.details.get("versions") or {}
    counted = f"version {versions['found']}, not {versions['expected']}" if versions else ""
    title = str(evidence.details.get("by") or "changed in place")
    lines = tuple(filter(None, (f"line {span.line}", cut(code, LETTERS), counted)))
    return Box(number, "change", cut(title, CAPITALS), lines, f"{span.path}:{span.line}: {code}", True, height=78.0)


def edge_of(edge: Mapping[str, Any], guilty: Sequence[int], evidence: Evidence) -> Edge:
    is_guilty = [edge["from"], edge["to"]] == list(guilty)
    label = f"{edge['skipped']} more" if edge.get("skipped") else ""
    if is_guilty and evidence.details.get("freed_by_pass"):
        label = f"freed by pass {evidence.details['freed_by_pass']}"
    return Edge(edge["from"], edge["to"], is_guilty, label)


def placed(boxes: Sequence[Box], edges: Sequence[Edge], said: str, left_out: int) -> Drawing:
    """The drawing of *boxes* and *edges*, top down as a backward pass walks."""
    graph = graphlay.Graph()
    for box in boxes:
        graph.node(box.number, width=WIDTH, height=box.height)
    for edge in edges:
        label = {"label_size": {"width": 7.5 * len(edge.label) + 8, "height": 18.0}} if edge.label else {}
        graph.edge(edge.start, edge.end, weight=4.0 if edge.is_guilty else 1.0, **label)
    options = {"direction": "topbottom", "routing": {"style": "diagonal"}, "spacing": SPACING}
    layout = graphlay.layout(graph, options=options)
    low, high = layout.bounds["min"], layout.bounds["max"]
    left, top = low["x"] - MARGIN, low["y"] - MARGIN
    centres = layout.positions()
    return Drawing(
        tuple(replace(box, x=centres[box.number][0] - left, y=centres[box.number][1] - top) for box in boxes),
        tuple(
            replace(edge, points=tuple((point["x"] - left, point["y"] - top) for point in drawn["points"]))
            for edge, drawn in zip(edges, layout.edges, strict=True)
        ),
        high["x"] - left + MARGIN,
        high["y"] - top + MARGIN,
        said,
        left_out,
    )


def description(evidence: Evidence, boxes: Sequence[Box], edges: Sequence[Edge]) -> str:
    by_number = {box.number: box for box in boxes}
    told = [f"{len(boxes)} nodes of the graph of the failing backward pass, which walks from the top down."]
    for edge in edges:
        if edge.is_guilty:
            told.append(f"The line in red runs from {by_number[edge.start].hint} to {by_number[edge.end].hint}.")
    if not any(edge.is_guilty for edge in edges):
        told += [f"In red: {box.hint}." for box in boxes if box.is_guilty]
    if evidence.kind == "stale graph":
        told.append("What lies under that line was freed by an earlier pass.")
    return " ".join(told)


def distance(one: tuple[float, float], other: tuple[float, float]) -> float:
    return abs(one[0] - other[0]) + abs(one[1] - other[1])


def words(boxes: Sequence[Box]) -> Iterator[str]:
    """Every box in words, for readers who cannot see the picture."""
    for box in boxes:
        yield f"{box.title}: {STATES[box.state]} ({box.hint})"
