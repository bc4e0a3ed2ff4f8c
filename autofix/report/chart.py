"""Curves of the runs, drawn by pygal: losses, and graphs that are kept.  The page's style gives the colours."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING
from xml.etree import ElementTree

import pygal

if TYPE_CHECKING:
    from autofix.child.recorded import Pass
    from autofix.execution.record import RunRecord
    from autofix.proof.prove import Certificate

Loss = float | None
MOST = 400
"""Most points of a curve.  Of a longer curve, every second, third ... point is drawn."""
WIDE = 50.0
"""Ratio of the largest to the smallest loss from which on the axis is logarithmic."""
MARKS = 10
"""Marks that an axis has room for."""
SETTLED, GROWN = 2, 1.5
"""Steps after which a script that trains has all the graph that it needs; growth from there on is worth a chart."""
CURVES = ("after", "reference", "before", "fails")
"""The curves in the order in which they are drawn, one over the other."""
SVG = "http://www.w3.org/2000/svg"


@dataclass(frozen=True)
class Quantity:
    """Quantity that a chart shows, and the quantity on its horizontal axis."""

    name: str
    over: str
    noun: str


LOSS = Quantity("loss", "backward pass", "pass")
NODES = Quantity("graph nodes alive", "optimizer step", "step")


@dataclass(frozen=True)
class Chart:
    """One quantity in all the runs."""

    title: str
    curves: dict[str, tuple[Loss, ...]]
    svg: str
    logarithmic: bool
    summary: str
    """Summary of the curves, in a sentence."""


def charts(certificate: Certificate) -> tuple[Chart, ...]:
    """A chart for each backward call of the script; one for all, where the runs have different numbers of calls."""
    runs = {"after": certificate.after, "before": certificate.before, "reference": certificate.reference}
    grouped = {name: by_call(run) for name, run in runs.items() if run is not None and run.passes}
    sizes = {len(groups) for groups in grouped.values()}
    if not grouped:
        return ()
    several = len(sizes) == 1 and sizes != {1}
    if not several:
        grouped = {name: [[one for group in groups for one in group]] for name, groups in grouped.items()}
        for groups in grouped.values():
            groups[0].sort(key=lambda one: one.number)
    found = []
    for index in range(max(map(len, grouped.values()))):
        passes = {name: groups[index] for name, groups in grouped.items()}
        first = next(iter(passes.values()))[0]
        title = f"backward at {first.file}:{first.line}" if several else "Loss"
        chart = draw(title, passes)
        if chart is not None:
            found.append(chart)
    return tuple(found)


def by_call(run: RunRecord) -> list[list[Pass]]:
    """The passes of *run*, for each place that calls ``backward``, in the order in which they come up."""
    groups: dict[tuple[str, int | None], list[Pass]] = {}
    for one in run.passes:
        if one.kind == "backward":
            groups.setdefault((one.file, one.line), []).append(one)
    return list(groups.values())


def draw(title: str, passes: Mapping[str, Sequence[Pass]]) -> Chart | None:
    """The chart of these passes; None where there is no curve to be seen."""
    curves = {name: tuple(loss_of(one) for one in some if one.error is None) for name, some in passes.items()}
    failed = [(index, loss_of(one)) for index, one in enumerate(passes.get("before", ())) if one.error is not None]
    if failed:
        index, loss = failed[0]
        curves["fails"] = (None,) * index + (loss if loss is not None else last(curves["before"]),)
    return chart_of(title, curves, LOSS)


def memory(certificate: Certificate) -> Chart | None:
    """The graph nodes that are alive after each step; None where they do not grow."""
    runs = {"after": certificate.after, "before": certificate.before}
    curves = {name: tuple(float(step.live.nodes) for step in run.updates) for name, run in runs.items()}
    grows = any(len(curve) > SETTLED + 1 and curve[-1] > GROWN * curve[SETTLED] for curve in curves.values())
    return chart_of("Graph nodes alive", {**curves}, NODES) if grows else None


def chart_of(title: str, curves: dict[str, tuple[Loss, ...]], quantity: Quantity) -> Chart | None:
    values = [value for curve in curves.values() for value in curve if value is not None]
    if not values or max(map(len, curves.values())) < 2:
        return None
    logarithmic = min(values) > 0 and max(values) / min(values) >= WIDE
    said = summary(curves, quantity)
    return Chart(title, curves, svg_of(curves, quantity, said, logarithmic=logarithmic), logarithmic, said)


def loss_of(one: Pass) -> Loss:
    value = sum(one.losses) if one.losses else math.nan
    return value if math.isfinite(value) else None


def last(curve: Sequence[Loss]) -> Loss:
    return next((value for value in reversed(curve) if value is not None), None)


def counted(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}{'es' if noun.endswith('s') else 's'}"


def thinned(curve: Sequence[Loss], every: int) -> list[Loss]:
    """Every so manieth point of *curve*; of one with a single point, as where a run fails, that point."""
    if every > 1 and curve and all(value is None for value in curve[:-1]):
        return [None] * ((len(curve) - 1) // every) + [curve[-1]]
    return list(curve[::every])


def summary(curves: dict[str, tuple[Loss, ...]], quantity: Quantity) -> str:
    parts = []
    for name in ("before", "after", "reference"):
        known = [value for value in curves.get(name, ()) if value is not None]
        if known:
            until = f"from {known[0]:.4g} to {known[-1]:.4g}" if len(known) > 1 else f"{known[0]:.4g}"
            ends = ", then it fails" if name == "before" and "fails" in curves else ""
            parts.append(f"{name}: {until} in {counted(len(curves[name]), quantity.noun)}{ends}")
    return "; ".join(parts)


def svg_of(curves: dict[str, tuple[Loss, ...]], quantity: Quantity, said: str, *, logarithmic: bool) -> str:
    length = max(map(len, curves.values()))
    every = math.ceil(length / MOST)
    numbers = range(1, length + 1, every)
    labelled = math.ceil(len(numbers) / 10)
    chart = pygal.Line(
        css=[],  # its own style would not know of the dark
        js=[],
        width=760,
        height=300,
        margin=4,
        show_legend=False,
        max_scale=8,
        show_minor_x_labels=False,
        y_labels=decades(curves) if logarithmic else None,
        logarithmic=logarithmic,
        disable_xml_declaration=True,
        x_title=quantity.over,
        y_title=f"{quantity.name}, logarithmic" if logarithmic else quantity.name,
        x_labels=[str(number) for number in numbers],
        x_labels_major_every=labelled,
        truncate_label=-1,
        value_formatter=lambda value: f"{value:.4g}",
        style=pygal.style.Style(title_font_size=13, label_font_size=12, major_label_font_size=12),
    )
    for name in CURVES:
        few = name == "fails" or len(curves.get(name, ())) <= 1
        chart.add(name, thinned(curves.get(name, ()), every), show_dots=few, stroke=name != "fails")
    return cleaned(chart.render_tree(), f"{quantity.name}: {said}")


def decades(curves: dict[str, tuple[Loss, ...]]) -> list[float]:
    """The marks of a logarithmic axis: pygal's own would stand on each other."""
    values = [value for curve in curves.values() for value in curve if value is not None]
    exponents = range(math.floor(math.log10(min(values))), math.ceil(math.log10(max(values))) + 1)
    fine = around(values, [float(f"{step}e{exponent}") for exponent in exponents for step in (1, 2, 5)])
    return fine if len(fine) <= MARKS else around(values, [float(f"1e{exponent}") for exponent in exponents])


def around(values: Sequence[float], marks: Sequence[float]) -> list[float]:
    """The *marks* that lie among *values*, and the nearest mark on both sides."""
    low = max((one for one in marks if one <= min(values)), default=marks[0])
    high = min((one for one in marks if one >= max(values)), default=marks[-1])
    return [one for one in marks if low <= one <= high]


def cleaned(tree: ElementTree.Element, said: str) -> str:
    """The drawing alone: without pygal's style, script, comments and tooltips' data, labelled with *said*."""
    ElementTree.register_namespace("", SVG)
    for parent in list(tree.iter()):
        for child in list(parent):
            if not isinstance(child.tag, str) or child.tag.rpartition("}")[2] in ("defs", "title", "desc"):
                parent.remove(child)
    tree.attrib = {"viewBox": tree.attrib["viewBox"], "class": "chart", "role": "img", "aria-label": said}
    return ElementTree.tostring(tree, encoding="unicode")
