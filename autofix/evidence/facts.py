"""Turns the evidence of a run into the facts that codemods answer, of the kinds that the static witness makes.

A run knows the places at which a value was made, put, used, freed and overwritten; the source has the statements there,
and the loop between them.  Where several statements may be the one to change, each gives a fact of its own, the
likeliest first: the proof decides.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from functools import partial

from autofix.codemods.checks.chains import apart, parting
from autofix.codemods.facts.base import Fact, Span
from autofix.codemods.facts.changed import LeafChanged, OutGiven, Overwritten, PartChanged
from autofix.codemods.facts.cut import NotScalar
from autofix.codemods.facts.freed import StaleGraph
from autofix.codemods.facts.kept import GraphHeld
from autofix.codemods.facts.legacy import LegacyApi
from autofix.codemods.facts.parts import CACHES, Carrier, Form, Outer
from autofix.codemods.facts.untrained import FlagRefused, HookRefused, LeafRefused, WholeFlagged
from autofix.codemods.source.program import Program
from autofix.evidence.carriers import Carry, carries_of, stores_in
from autofix.evidence.cuts import cut_graphs
from autofix.evidence.escapes import copied, escapes, sent
from autofix.evidence.places import Chain, crossed, named_by_callers, outer_place, turned_within
from autofix.evidence.source import Loop, Text, Texts, names_in
from autofix.evidence.witness import Drop, Evidence, Site, Step, entry

STORIES = 4
"""Statements that may have kept one value, each told in a fact of its own."""


def facts_of(evidence: Evidence, program: Program, paths: Mapping[str, str]) -> list[Fact]:
    """The facts that *evidence* may mean, the likeliest first, in the lines of *program*.

    ``paths`` gives the program's name for each file that the run names.  Empty where the evidence leads to no place in
    the program: to installed packages, say.
    """
    try:
        return list(_Witnessed(evidence, program, paths).facts())
    except KeyError:  # a file that is not of the program
        return []


class _Witnessed:
    def __init__(self, evidence: Evidence, program: Program, paths: Mapping[str, str]) -> None:
        self.evidence = evidence
        self.program = program
        self.paths = paths
        self.texts = Texts(program)
        self.sites = {role: self._chain(site) for role, site in evidence.sites.items() if site.spans}
        self.carries = carries_of(evidence, program, self.texts, paths)

    def facts(self) -> Iterator[Fact]:
        failed = self.sites.get("failed", ())
        if self.evidence.kind == "graph held":
            yield from self._held()
        if not failed:
            return
        name = self._code(failed[-1])
        match self.evidence.kind:
            case "stale graph":
                yield from self._stale()
            case "overwritten":
                yield from self._overwritten()
            case "leaf changed":
                yield LeafChanged(changed=failed[-1], name=name)
            case "out argument":
                yield OutGiven(changed=failed[-1], name=name)
            case "part changed":
                yield PartChanged(
                    made=_last(self.sites.get("made", ())) or failed[-1],
                    changed=failed[-1],
                    constructed=_last(self.sites.get("constructed", ())),
                    name=name,
                )
            case "refused flag" | "refused leaf" | "refused hook" | "whole numbers":
                yield from self._refused(failed[-1], name)
            case "graph escapes":
                yield from escapes(self.texts, failed[-1], name, self._forms())
            case "graph sent":
                yield from sent(self.texts, failed[-1], name, self._forms())
            case "graph copied":
                yield copied(self.texts, failed[-1], name, self.carries, self._forms(), self._owned())
            case "cut graph":
                yield from cut_graphs(self.texts, failed, [(one, self._chain(one.site)) for one in self._drops()])
            case "not a scalar":
                for by_row in (False, True):
                    yield NotScalar(made=self.sites["made"][-1], failed=failed[-1], by_row=by_row)
            case "legacy API":
                yield LegacyApi(call=failed[-1], name=name)

    def _refused(self, place: Span, name: str) -> Iterator[Fact]:
        """A flag or a hook that a tensor does not take at *place*."""
        made = _last(self.sites.get("made", ())) or place
        match self.evidence.kind:
            case "refused flag":
                yield FlagRefused(made=made, changed=place, name=name)
            case "refused leaf":
                for data in (False, True):
                    yield LeafRefused(made=made, changed=place, data=data, name=name)
            case "refused hook":
                for recorded in (True, False):
                    yield HookRefused(hooked=place, recorded=recorded, name=name)
            case "whole numbers":
                yield WholeFlagged(flagged=place, name=name)

    def _forms(self) -> dict[str, Form]:
        """Forms of the variables, by name, that hold tensors where the run failed."""
        home = self.evidence.sites["failed"].functions[-1]
        frames = [one for one in self.evidence.details.get("forms", ()) if one["function"] == home]
        return {name: Form(form) for frame in frames for name, form in frame["names"].items()}

    def _owned(self) -> list[str]:
        """The names under which the function that failed knows the value."""
        home = self.evidence.sites["failed"].functions[-1]
        return [one.name for one in self.evidence.holders if one.function == home]

    def _held(self) -> Iterator[Fact]:
        """The statements that came to hold the value, each with the loop around it; the last one holds it longest."""
        for carry in reversed(self.carries):
            store = carry.store
            own = [(store.text, loop) for loop in store.text.loops_of(store.statement)]
            around = own or self._loops_around(carry)
            if not around or carry.only_names:
                continue
            text, loop = around[0]
            passes = any(isinstance(one, ast.Attribute) and one.attr == "backward" for one in ast.walk(loop))
            expression = store.text.span(store.value) if store.whole else None
            yield GraphHeld(
                kept=store.span, loop=text.span(loop), expression=expression, evaluates=not passes, name=store.name
            )

    def _loops_around(self, carry: Carry) -> list[tuple[Text, Loop]]:
        """The loops in the functions that called the one in which the statement stands, the innermost first."""
        found: list[tuple[Text, Loop]] = []
        for span in reversed(self._chain(carry.put.site)[:-1]):
            text = self.texts.of(span)
            statement = text.statement(span)
            found += [(text, loop) for loop in text.loops_of(statement)] if statement is not None else []
        return found

    def _drops(self) -> list[Drop]:
        """The drops in files of the program."""
        known = set(self.paths)
        return [one for one in self.evidence.drops if one.site.spans and {s.path for s in one.site.spans} <= known]

    def _stale(self) -> Iterator[Fact]:
        made, reader = entry(self.evidence)
        freed, failed = self.sites.get("freed", ()), self.sites["failed"]
        if made is None or not freed:
            return
        place, used = self._chain(made.site), self._chain(reader.site) if reader is not None else failed
        walked = self.sites.get("walked", ())
        number = self.evidence.details.get("freed_by_pass", 0)
        moments = [(made.passes + 0.1, place), (number, freed), *self._passes_after(number)]
        if reader is not None:
            moments.append((reader.passes + 0.2, used))  # perhaps before the pass that freed
        story = [chain for _, chain in sorted(moments, key=lambda moment: moment[0])] + [failed]
        loop, inside = crossed(self.texts, place, freed, failed, story)
        outer = Outer(
            outer_place(place, failed),
            outer_place(used, failed),
            outer_place(walked, failed) if walked else None,
            outer_place(walked, freed) if walked else None,
            (_enters(reader), bool(walked) and bool(self.evidence.details.get("walked_enters"))),
            reader is not None and reader.mixes,
            parting(freed, failed),
        )
        fact = partial(
            StaleGraph,
            walked=walked[-1] if walked else None,
            freed=freed[-1],
            failed=failed[-1],
            loop=loop,
            inside=inside,
            outer=outer,
            together=bool(self.evidence.details.get("one_step")),
        )
        cached = self._cached(place)
        if cached is not None:
            yield fact(made=place[-1], kept=cached.statement, used=used[-1], carriers=(cached,), name=cached.name)
        for kept, carriers in self._kept([carry for carry in self.carries if carry.put.passes < number]):
            yield fact(
                made=self._made_at(place),
                kept=kept.store.span if kept else None,
                used=self._read_at(used, kept),
                carriers=carriers,
                outside=self._outside(kept),
                name=_name(kept),
            )

    def _overwritten(self) -> Iterator[Fact]:
        made, reader = entry(self.evidence)
        changed, failed = self.sites.get("changed", ()), self.sites["failed"]
        if made is None or not changed:
            return
        place, used = self._chain(made.site), self._chain(reader.site) if reader is not None else failed
        saved = self.sites.get("saved", place)
        number = self.evidence.details.get("changed_number") or 0
        since = (self.evidence.details.get("saved_after") or {}).get("passes", 0)
        story = [saved, *(chain for _, chain in self._passes_after(since)), failed]
        loop, inside = crossed(self.texts, saved, saved, failed, story)
        if turned_within(self.texts, saved, [changed, *story[1:]]):
            loop, inside = None, False
        outer = Outer(
            outer_place(saved, failed),
            outer_place(used, failed),
            None,
            mixed=reader is not None and reader.mixes,
            passes=apart(changed, failed),
        )
        by_step = self.evidence.details.get("change") == "optimizer step"
        before = [carry for carry in self.carries if carry.put.number <= number]
        for kept, carriers in self._kept(before) if reader is not None else [(None, self._carriers())]:
            yield Overwritten(
                saved=self._made_at(place) if reader is not None else saved[-1],
                kept=kept.store.span if kept else None,
                used=self._read_at(used, kept) if reader is not None else None,
                retained=_last(self.sites.get("retained", ())),
                changed=changed[-1],
                constructed=_last(self.sites.get("constructed", ())),
                failed=failed[-1],
                loop=loop,
                inside=inside,
                carriers=carriers,
                outside=self._outside(kept),
                outer=outer,
                name=_name(kept),
                by_step=by_step,
                parameter=not by_step,  # perhaps: a candidate that takes it for one is run before it is believed
                operation=saved[-1],
            )

    def _kept(self, before: Sequence[Carry]) -> Iterator[tuple[Carry | None, tuple[Carrier, ...]]]:
        """The statement that kept the value, and all that carried it.

        First comes the last statement of an earlier iteration, or else of the statements *before* the value was spoilt;
        then earlier ones; then each of them once more under the names that the failing function has for its attribute.
        A single None where there are none.
        """
        past = [carry for carry in self.carries if carry.past]
        last_first = ([carry for carry in past if not carry.only_names] or past or list(before))[::-1]
        chosen = list({carry.store.span: carry for carry in reversed(last_first)}.values())[::-1][:STORIES]
        for carry in chosen:
            yield carry, self._carriers()
        for carry in chosen:
            for name in self._names_outside(carry):
                yield carry, (Carrier(carry.store.span, None, name, carry.carriers[0].form),)
        if not chosen:
            yield None, self._carriers()

    def _cached(self, made: Chain) -> Carrier | None:
        """The decorator that caches the results of the innermost function of *made*; None if there is none."""
        text = self.texts.of(made[-1])
        statement = text.statement(made[-1])
        function = text.function_of(statement) if statement is not None else None
        if not isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)):
            return None
        for decorator in function.decorator_list:
            name = decorator.func if isinstance(decorator, ast.Call) else decorator
            if text.code(name).rpartition(".")[2] in CACHES:
                return Carrier(text.span(decorator), None, function.name, Form.OTHER)
        return None

    def _carriers(self) -> tuple[Carrier, ...]:
        return tuple(carrier for carry in self.carries for carrier in carry.carriers)

    def _names_outside(self, carry: Carry) -> Iterator[str]:
        """Names of an attribute of ``self`` in the function of the failing pass: ``net.memory.state``."""
        home = self.evidence.sites["failed"].functions[-1]
        if carry.store.name.startswith("self.") and carry.put.function != home:
            known = (one.name for one in self.evidence.holders if one.function == home)
            yield from dict.fromkeys(name for name in known if name.endswith(carry.store.root))

    def _outside(self, kept: Carry | None) -> tuple[Carrier, ...]:
        """Names that the functions around the failing pass have for an attribute of ``self`` that keeps the value.

        They begin with the name of the object whose method put the value there.
        """
        if kept is None or not kept.store.name.startswith("self."):
            return ()
        failed = self.evidence.sites["failed"].functions
        name, bracket, _ = kept.store.name.partition("[")
        form = Form(kept.put.form) if bracket else kept.carriers[0].form
        found = []
        for depth, called in named_by_callers(self.texts, name, self._chain(kept.put.site), kept.put.site.functions):
            if kept.put.site.functions[: depth + 1] == failed[: depth + 1]:
                found.append(Carrier(kept.store.span, None, called, form))
        return tuple(found)

    def _passes_after(self, number: int) -> list[tuple[float, Chain]]:
        """The passes after the one of this number and before the one that failed, with their numbers."""
        return [(after, self._chain(site)) for after, site in self.evidence.between if after > number and site.spans]

    def _made_at(self, made: Chain) -> Span:
        """Place at which a value was made: the innermost in a statement that stores it, else the innermost of all."""
        for span in reversed(made):
            text = self.texts.of(span)
            statement = text.statement(span)
            if statement is not None and stores_in(text, statement):
                return span
        return made[-1]

    def _read_at(self, used: Chain, kept: Carry | None) -> Span:
        """The use, in the innermost function on its way that reads the kept value's name."""
        for span in reversed(used):
            node = self.texts.of(span).expression(span)
            if kept is not None and node is not None and kept.store.root in names_in(node):
                return span
        return used[-1]

    def _chain(self, site: Site) -> Chain:
        return tuple(self._span(span) for span in site.spans)

    def _span(self, span: Span) -> Span:
        named = Span(self.paths[span.path], span.line, span.column, span.end_line, span.end_column)
        return self.program.in_program(named)

    def _code(self, span: Span) -> str:
        text = self.texts.of(span)
        node = text.expression(span) or text.statement(span)
        return text.code(node) if node is not None else ""


def _name(kept: Carry | None) -> str:
    return kept.store.name if kept is not None else ""


def _enters(step: Step | None) -> bool:
    return step is not None and step.enters


def _last(chain: Chain) -> Span | None:
    return chain[-1] if chain else None
