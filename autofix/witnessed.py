"""Turns what a run showed into the facts that codemods answer: the same as the static witness makes.

A run knows where a value was made, used, freed and overwritten, and who holds it now; the source says which statement
carried it there and which loop lies between.  Where several statements may have carried it, each gives a fact of its
own, the likeliest first: the proof decides.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from autofix.evidence import Evidence, Holder, Site
from autofix.witnessed_carriers import Carriage, Carry, Forms, Frame, holder_root, stores_in
from autofix.witnessed_places import Chain, crossed, outer_place, passed_by
from autofix.witnessed_source import Texts
from codemods.facts import Fact, Form, GraphEscapes, LeafChanged, LegacyApi, Outer, Overwritten, Span, StaleGraph
from codemods.program import Program

STORIES = 4
"""Statements that may have carried one value, each told in a fact of its own."""


def facts_of(evidence: Evidence, program: Program, paths: Mapping[str, str]) -> list[Fact]:
    """The facts that *evidence* may mean, the likeliest first, in the lines of *program*.

    ``paths`` gives the program's name for each file that the run names.  Empty where the evidence leads to no place in
    the program: to installed packages, say.
    """
    try:
        return list(_Witnessed(evidence, program, paths).facts())
    except KeyError:  # a file that is not of the program
        return []


@dataclass(frozen=True)
class Step:
    """A call on the way of the failing pass, from the guilty node to the root."""

    chain: Chain
    number: int
    passes: int
    enters: bool
    mixes: bool


class _Witnessed:
    def __init__(self, evidence: Evidence, program: Program, paths: Mapping[str, str]) -> None:
        self.evidence = evidence
        self.program = program
        self.paths = paths
        self.texts = Texts(program)
        self.sites = {role: self._chain(site) for role, site in evidence.sites.items() if site.spans}

    def facts(self) -> Iterator[Fact]:
        failed = self.sites.get("failed", ())
        if not failed:
            return
        match self.evidence.kind:
            case "stale graph":
                yield from self._stale()
            case "overwritten":
                yield from self._overwritten()
            case "leaf changed":
                yield LeafChanged(changed=failed[-1].span, name=self._code(failed[-1].span))
            case "graph escapes":
                yield GraphEscapes(call=failed[-1].span, name=self._code(failed[-1].span))
            case "legacy API":
                yield LegacyApi(call=failed[-1].span, name=self._code(failed[-1].span))

    def _chain(self, site: Site) -> Chain:
        return tuple(Frame(self._span(span), name) for span, name in zip(site.spans, site.functions, strict=True))

    def _span(self, span: Span) -> Span:
        named = Span(self.paths[span.path], span.line, span.column, span.end_line, span.end_column)
        return self.program.in_program(named)

    def _code(self, span: Span) -> str:
        text = self.texts.of(span)
        node = text.expression(span) or text.statement(span)
        return text.code(node) if node is not None else ""

    def _way(self) -> list[Step]:
        found = []
        for told in self.evidence.way:
            found.append(Step(self._chain(told.site), told.number, told.passes, told.enters, told.mixes))
        return [step for step in found if step.chain]

    def _stale(self) -> Iterator[Fact]:
        freed, failed = self.sites.get("freed", ()), self.sites["failed"]
        way = self._way()
        if not way or not freed:
            return
        between = self._between()
        at = self._entry(way, 1, between)
        made, reader = way[at - 1], way[at] if at < len(way) else None
        used = reader.chain if reader is not None else failed
        walked = self.sites.get("walked", ())
        after = self.evidence.details.get("freed_by_pass", 0)
        story = [
            made.chain,
            freed,
            *(chain for number, chain in between if number > after),
            *([reader.chain] if reader is not None else []),
            failed,
        ]
        loop, inside = crossed(self.texts, made.chain, freed, failed, story)
        place = self._made_at(made.chain)
        for kept, carries, carriage in self._kept(made.chain, used, at):
            yield StaleGraph(
                made=place,
                kept=kept.store.span if kept else None,
                used=used[-1].span,
                walked=walked[-1].span if walked else None,
                freed=freed[-1].span,
                failed=failed[-1].span,
                loop=loop,
                inside=inside,
                carriers=carriage.carriers(carries),
                outer=Outer(
                    outer_place(made.chain, failed),
                    outer_place(used, failed),
                    outer_place(walked, failed) if walked else None,
                    (
                        reader is not None and reader.enters,
                        bool(walked) and bool(self.evidence.details.get("walked_enters")),
                    ),
                    reader is not None and reader.mixes,
                ),
                name=kept.store.name if kept else "",
            )

    def _overwritten(self) -> Iterator[Fact]:
        changed, failed = self.sites.get("changed", ()), self.sites["failed"]
        way = self._way()
        if not way or not changed:
            return
        number = self.evidence.details.get("changed_number") or 0
        between = self._between()
        at = next((i for i in range(1, len(way)) if way[i].number >= number), len(way))
        at = self._entry(way, at, between)
        made, reader = way[at - 1], way[at] if at < len(way) else None
        used = reader.chain if reader is not None else failed
        saved, constructed = self.sites.get("saved", made.chain), self.sites.get("constructed", ())
        retained = self.sites.get("retained", ())
        story = [saved, *(chain for _, chain in between), failed]
        loop, inside = crossed(self.texts, saved, saved, failed, story)
        for kept, carries, carriage in self._kept(made.chain, used, at):
            yield Overwritten(
                saved=self._made_at(made.chain) if reader is not None else saved[-1].span,
                kept=kept.store.span if kept and reader is not None else None,
                used=used[-1].span if reader is not None else None,
                retained=retained[-1].span if retained else None,
                changed=changed[-1].span,
                constructed=constructed[-1].span if constructed else None,
                failed=failed[-1].span,
                loop=loop,
                inside=inside,
                carriers=carriage.carriers(carries),
                outer=Outer(
                    outer_place(saved, failed),
                    outer_place(used, failed),
                    None,
                    mixed=reader is not None and reader.mixes,
                ),
                name=kept.store.name if kept and reader is not None else "",
                by_step=self.evidence.details.get("change") == "optimizer step",
            )
            if reader is None:
                return

    def _between(self) -> list[tuple[int, Chain]]:
        """The passes between the making and the failure, by number."""
        found = ((number, self._chain(site)) for number, site in self.evidence.between)
        return [(number, chain) for number, chain in found if chain]

    def _entry(self, way: Sequence[Step], at: int, between: Sequence[tuple[int, Chain]]) -> int:
        """The first step on the way, from *at* on, of the failing pass's own iteration: before it lies the past."""
        failed = self.sites["failed"]
        while at < len(way):
            later = [chain for number, chain in between if number > way[at].passes]
            if passed_by([way[at].chain, *later, failed]):
                break
            at += 1
        return at

    def _made_at(self, made: Chain) -> Span:
        """Where a value was made: the expression in the first statement that kept it, else the innermost."""
        for frame in reversed(made):
            text = self.texts.of(frame.span)
            statement = text.statement(frame.span)
            if statement is not None and stores_in(text, statement):
                return frame.span
        return made[-1].span

    def _kept(self, made: Chain, used: Chain, at: int) -> Iterator[tuple[Carry | None, list[Carry], Carriage]]:
        """The statements that may have kept the value, the likeliest first, each with all that carried it."""
        held = [holder for holder in self.evidence.holders if holder.at < at]
        carriage = Carriage(self.texts, held, self._forms(held))
        carries = carriage.follow(made, used)
        order = {id(carry): number for number, carry in enumerate(carries)}
        ranked = sorted(carries, key=lambda one: (-one.weight, -order[id(one)]))
        told: set[Span] = set()
        for carry in ranked:
            if carry.store.span not in told and len(told) < STORIES:
                told.add(carry.store.span)
                yield carry, carries, carriage
        if not told:
            yield None, [], carriage

    def _forms(self, held: Sequence[Holder]) -> Forms:
        known: dict[tuple[str, str, str], Form] = {}
        for frame in self.evidence.details.get("forms", ()):
            path = self.paths.get(frame["file"])
            if path is not None:
                for name, form in frame["names"].items():
                    known[path, frame["function"], name] = Form(form)
        items = {
            holder_root(one): Form(one.item) for one in held if one.item and one.kind not in ("variable", "attribute")
        }
        return Forms(known, items)
