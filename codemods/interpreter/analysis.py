"""The static witness: what the symbolic tape saw on every path through a source file."""

from __future__ import annotations

import ast
import gc
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import cache
from typing import NamedTuple, TypeVar

from codemods.autograd.graph import (
    BackwardCall,
    BackwardWithoutGraph,
    Change,
    FreedGraphUse,
    GraphLeak,
    Leaf,
    Loops,
    Node,
    RetainedGraph,
    SavedTensorModified,
    StoreEvent,
    Tape,
    crossing,
    distance,
    useful_edges,
)
from codemods.facts import (
    Carrier,
    Certainty,
    ComputedParameter,
    CutGraph,
    Drop,
    Fact,
    Form,
    GraphCopied,
    GraphEscapes,
    GraphHeld,
    GraphSent,
    InferenceSaved,
    LeafChanged,
    LegacyApi,
    LegacyFunction,
    NotScalar,
    Outer,
    OutGiven,
    Overwritten,
    PartBeside,
    PartChanged,
    Span,
    StaleGraph,
)
from codemods.interpreter import calls, class_lookup, cuts, frameworks, holding, lived, prepared, rivals, supposed
from codemods.interpreter.entries import MODULE, entries, is_model_that_overwrites, may_go_wrong, nearness
from codemods.interpreter.interpreter import GaveUp, ProgramInterpreter
from codemods.interpreter.policy import BranchPolicy, Path, Paths
from codemods.interpreter.protocol import Interpreter
from codemods.interpreter.rivals import outer_site
from codemods.interpreter.values import BatchSize, Binding, Class, Function, Instance
from codemods.source import reach
from codemods.source.program import Program
from codemods.source.reach import Missed
from codemods.source.sources import Site, Source, Sources, last_name

PATHS = 16
"""Paths through one program that are followed."""
PATHS_OF_MODEL = 2
"""Paths through a model whose result is sent backward."""
PATHS_OF_FUNCTION = 4
"""Paths through one function that nobody in the module calls."""
IDLE = 25_000
"""Expressions and statements evaluated on paths that show nothing new, one after the other, before no further path
through the same code is begun."""
STEPS = 250_000
"""Expressions and statements evaluated over all paths before no further path is begun."""


class Place(NamedTuple):
    """Where a node was made, in terms that an edit elsewhere does not change."""

    operation: str
    line: int
    rank: int = 0
    """Which one it is of those with this operation on this line, from left to right."""
    calls: tuple[tuple[int, int, str], ...] = ()
    """The line of each call that led there, which one on its line of those of this name, and the name: two views of one
    picture are two ways.
    """


class Edge(NamedTuple):
    """An edge of the graph as one pass walked it."""

    line: int
    """Of the pass."""
    consumer: Place
    producer: Place
    gap: tuple[int, ...]
    """How many iterations of each common loop lie between the producer and the pass."""
    lag: tuple[int, ...] = ()
    """How many lie between the producer and the consumer: a state's way from one time step to the next."""


@dataclass(frozen=True)
class AnalysisResult:
    """Everything that the paths through a program showed.

    ``edges`` are those of useful gradient flow: fresh when their pass walked them, and leading to a parameter that is
    trained.  ``trained`` says which pass (by line) gave which parameter a gradient that a step used.
    ``crashes`` are errors that the program certainly meets, ``rootless`` the lines of
    passes whose root has no graph, ``passes`` those of all passes.
    """

    facts: tuple[Fact, ...] = ()
    edges: frozenset[Edge] = frozenset()
    trained: frozenset[tuple[int, str]] = frozenset()
    ways: frozenset[tuple[tuple[int, ...], str]] = frozenset()
    """The same with the lines of the calls that led to the pass: two losses may be sent backward by one method."""
    waiting: frozenset[tuple[tuple[int, ...], str]] = frozenset()
    """Where, by lines, parameters were read of which a gradient waited for its step."""
    once: frozenset[tuple[int, str]] = frozenset()
    """Those that the first pass at that line alone trained, of several."""
    crashes: frozenset[str] = frozenset()
    rootless: frozenset[int] = frozenset()
    passes: frozenset[int] = frozenset()
    complete: bool = True
    """False where the program was too large for the budget."""
    paths: tuple[Path, ...] = ()
    """For each fact, the path that showed it first."""
    steps: int = 0
    """Expressions and statements evaluated, for budgets."""
    written: frozenset[int] = frozenset()
    """The lines of all calls that run a backward pass, reached or not."""
    missed: tuple[Missed, ...] = ()
    """Those of them that no path reached."""
    alone: bool = False
    """Whether the program has one path only: then that shows all there is."""


@dataclass
class _Collected:
    facts: dict[Fact, Path] = field(default_factory=dict)
    edges: set[Edge] = field(default_factory=set)
    ways: set[tuple[tuple[int, ...], str]] = field(default_factory=set)
    waiting: set[tuple[tuple[int, ...], str]] = field(default_factory=set)
    faded: set[tuple[int, str]] = field(default_factory=set)
    repeated: set[int] = field(default_factory=set)
    """Lines at which a path ran several passes."""
    later: set[tuple[int, str]] = field(default_factory=set)
    """What passes trained that were not the first at their place: see :func:`_later`."""
    reduced: set[int] = field(default_factory=set)
    """The lines of passes that were sent from scalars alone on some path."""
    crashes: set[str] = field(default_factory=set)
    rootless: set[int] = field(default_factory=set)
    passes: set[int] = field(default_factory=set)
    training: set[int] = field(default_factory=set)
    """Lines of the passes that reach something which may be trained."""
    holdings: dict[GraphHeld, RetainedGraph] = field(default_factory=dict)
    """What is kept for nothing, as far as the path knew that showed it."""
    executed: set[ast.stmt] = field(default_factory=set)
    sources: list[Source] = field(default_factory=list)
    used: set[ast.AST] = field(default_factory=set)
    """Statements through which a pass came on some path."""
    shown: Counter[Fact] = field(default_factory=Counter)
    """On how many paths through the script a pass was found to have no graph."""
    followed: int = 0
    """Paths through the script itself."""
    every: int = 0
    """All paths."""
    complete: bool = True
    steps: int = 0
    nearness: dict[Hashable, int] = field(default_factory=dict)
    """How near the program's functions are to a backward pass."""

    def extent(self) -> tuple[int, ...]:
        """How much is known: a path after which this is as before showed nothing new."""
        known = (self.facts, self.edges, self.ways, self.waiting, self.faded, self.repeated, self.later, self.crashes)
        return tuple(map(len, (*known, self.rootless, self.passes, self.training, self.holdings, self.used)))

    @property
    def trained(self) -> set[tuple[int, str]]:
        return {(place[0], name) for place, name in self.ways}

    def observation(self) -> AnalysisResult:
        ended = {path for fact, path in self.facts.items() if isinstance(fact, ComputedParameter) and not fact.on_gpu}
        facts = tuple(
            fact
            for fact in _without_echoes(self.facts)
            if not self._is_answered_elsewhere(fact)
            and not self._is_provoked(fact)
            and (self.facts[fact] not in ended or isinstance(fact, _BEFORE_THE_END))
        )
        if all(isinstance(fact, LegacyApi) and "volatile" in fact.name for fact in facts):
            facts = ()  # the flag is ignored: where nothing else is wrong, the script does what it did
        trained = self.trained
        return AnalysisResult(
            _with_all_computed(facts),
            frozenset(_ranked(self.edges)),
            frozenset(trained),
            frozenset(self.ways),
            frozenset(self.waiting),
            frozenset(self.faded | {one for one in trained if one[0] in self.repeated and one not in self.later}),
            frozenset(self.crashes),
            frozenset(self.rootless),
            frozenset(self.passes),
            self.complete,
            tuple(self.facts[fact] for fact in facts),
            self.steps,
            frozenset(call.lineno + source.start for source, call in reach.written(self.sources)),
            tuple(reach.missed(self.sources, self.passes | self.rootless, self.executed, complete=self.complete)),
            self.every == 1,
        )

    def _is_answered_elsewhere(self, fact: Fact) -> bool:
        """Whether another path shows the graph that is said to be missing, or a use for the one that is kept."""
        if isinstance(fact, GraphHeld):
            kept = self.holdings[fact]
            used = kept.kept.statement.node in self.used
            return used or not self.complete or not holding.every_reader_ran(kept, self.sources, self.executed)
        if isinstance(fact, NotScalar):
            return fact.failed.line in self.reduced  # `if labels is None: return logits` is not the way of a training
        if isinstance(fact, CutGraph) and fact.beside:
            return not self.complete or set(fact.wanted) <= {name for _, name in self.trained}
        if isinstance(fact, CutGraph) and fact.silent:
            return bool(self.training)  # a script that trains may well ask for the gradient of a copy, too
        if not isinstance(fact, CutGraph) or fact.lasting or fact.failed.line not in self.training:
            return False
        # A pass that trains in one stage of the script and fails in a later one, whichever way the script takes.
        return not (self.complete and self.shown[fact] == self.followed)

    def _is_provoked(self, fact: Fact) -> bool:
        """Whether the script fails on purpose: it goes on when the statement that fails has failed."""
        place = getattr(fact, "failed", None) or getattr(fact, "changed", None)
        if place is None:
            return False
        source = next(source for source in reversed(self.sources) if source.start < place.line)
        return any(
            probe.body[0].lineno <= place.line - source.start <= (probe.body[-1].end_lineno or 0)
            for probe in source.remembered(source.tree, _probes)
        )


_FEW = 3
"""Statements at most in a ``try`` that is there to see one of them fail."""
_CAUGHT = frozenset(("RuntimeError", "Exception", "BaseException"))
_AGAIN = (ast.For, ast.AsyncFor, ast.While)


def _probes(tree: ast.Module) -> tuple[ast.Try, ...]:
    """Every ``try`` of a few statements that runs once where it stands, and whose errors are swallowed.

    In a loop it may be there for one bad batch of many; a longer one may hold the training itself.
    """
    found: list[ast.Try] = []
    pending: list[ast.AST] = [tree]
    while pending:
        part = pending.pop()
        if isinstance(part, ast.Try) and len(part.body) <= _FEW and _swallows(part):
            if not any(isinstance(one, _AGAIN) for statement in part.body for one in ast.walk(statement)):
                found.append(part)
        # No statement stands in an expression, which may be deep.
        pending += [one for one in ast.iter_child_nodes(part) if not isinstance(one, (ast.expr, *_AGAIN))]
    return tuple(found)


def _swallows(node: ast.Try) -> bool:
    """Whether no handler raises an error again, or leaves the script, and one catches what PyTorch raises."""
    caught = {
        last_name(one)
        for handler in node.handlers
        if handler.type
        for one in ast.walk(handler.type)
        if isinstance(one, ast.expr)
    }
    leaves = any(
        isinstance(part, ast.Raise) or (isinstance(part, ast.Call) and last_name(part.func) in ("exit", "_exit"))
        for handler in node.handlers
        for part in ast.walk(handler)
    )
    return not leaves and (bool(caught & _CAUGHT) or any(handler.type is None for handler in node.handlers))


def analyze(program: Program, only: Path | None = None) -> AnalysisResult:
    """Follow the program's paths, or *only* one of them, and say what goes wrong on its tape.

    Raises :class:`SyntaxError` where a file of the program does not parse.
    """
    sources = Sources(program)
    if not may_go_wrong(source.text for source in sources.all):
        return AnalysisResult()
    collects = gc.isenabled()
    gc.disable()  # a path is many small objects that live to its end: to look through them again and again is waste
    try:
        return _observe(sources, only)
    finally:
        if collects:
            gc.enable()


def _observe(sources: Sources, only: Path | None) -> AnalysisResult:
    found = _Collected(sources=sources.all)
    if only is not None:
        _follow(sources, BranchPolicy(only), found)
        return replace(found.observation(), alone=False)
    found.nearness = nearness(sources)
    called: set[ast.AST] = set()
    trained: set[ast.AST] = set()
    for entry in entries(sources):
        function = _function_node(sources.main, entry)
        if function in called:
            continue
        reached, idle = False, 0
        for aged in (False, True):
            if aged and (entry == MODULE or reached):
                break  # it came to a pass with an object that was just made
            for policy in Paths(PATHS if entry == MODULE else PATHS_OF_FUNCTION, entry, lived=aged):
                before, steps = found.extent(), found.steps
                interp = _follow(sources, policy, found)
                called |= interp.log.called
                sent = bool(interp.tape.passes or interp.tape.rootless or interp.tape.cut)
                reached |= sent
                trained.update(interp.log.called if sent else ())
                policy.shows_more = found.extent() != before
                is_first = not (policy.path.answers or policy.path.prefer_false)
                idle = 0 if policy.shows_more or is_first else idle + found.steps - steps
                if found.steps > STEPS or not found.complete:
                    return found.observation()
                if idle > IDLE:
                    break
    _suppose(sources, found, trained)
    # What else is wrong there is wrong with what calls the model, or is not: that has not been read.
    known = {fact: path for fact, path in found.facts.items() if not path.supposed or isinstance(fact, Overwritten)}
    found.facts = known
    return found.observation()


def _suppose(sources: Sources, found: _Collected, trained: set[ast.AST]) -> None:
    """Send backward what the models of the main file compute that no pass of the program is known to train."""
    for entry, forward in supposed.forwards(sources, trained) if is_model_that_overwrites(sources.main.text) else ():
        if forward not in trained:
            for policy in Paths(PATHS_OF_MODEL, entry, supposed=True):
                trained |= _follow(sources, policy, found).log.called
                if found.steps > STEPS or not found.complete:
                    return


def _follow(sources: Sources, policy: BranchPolicy, found: _Collected) -> Interpreter:
    """Run one path and collect what it shows."""
    interp = ProgramInterpreter(sources, policy)
    policy.near = found.nearness
    try:
        _execute(interp, policy.path)
    except (GaveUp, RecursionError):
        found.complete = False
    finally:
        interp.close()
    _collect(interp, found)
    found.steps += interp.steps_taken
    found.every += 1
    return interp


def _execute(interp: Interpreter, path: Path) -> None:
    """Run the module; with an *entry*, as it is imported, and then that function on arguments that nobody knows."""
    entry = path.entry
    interp.policy.nearness = 1
    interp.globals.names["__name__"] = Binding("__main__" if entry == MODULE else "module")
    interp.run(interp.sources.main.tree.body)
    interp.exceptions.exited = False
    if entry == MODULE:
        return
    owner, _, name = entry.rpartition(".")
    slot = interp.globals.names.get(owner or name)
    value = slot.value if slot is not None else None
    anchor = ast.Name(name, ast.Load(), lineno=1, col_offset=0, end_lineno=1, end_col_offset=0)
    if isinstance(value, Class):
        member = class_lookup.find(Instance(value), name)
        if not isinstance(member, Function):
            return
        receiver = []
        if member.flavour != "staticmethod":
            receiver = [calls.instantiate(interp, value, [], {}, anchor)]
        if receiver and path.supposed:
            supposed.train(interp, member, receiver[0], anchor)
            return
        if receiver and isinstance(receiver[0], Instance):
            prepared.prepare(interp, receiver[0], name, anchor)
        if receiver and path.lived and not lived.age(interp, receiver[0], set()):
            return
        if receiver and isinstance(receiver[0], Instance) and frameworks.step_of(receiver[0]) == name:
            frameworks.drive(interp, receiver[0], _head_of(member))
            return
        holding.given_away(interp, calls.call_function(interp, member, receiver, {}, anchor))
    elif isinstance(value, Function):
        holding.given_away(interp, calls.call_function(interp, value, [], {}, anchor))


def _head_of(function: Function) -> ast.expr:
    """``def training_step``, as a place for what is called there."""
    place = ast.copy_location(ast.Name(function.name, ast.Load()), function.node)
    place.end_lineno, place.end_col_offset = place.lineno, place.col_offset + len(f"def {function.name}")
    return place


def _function_node(source: Source, entry: str) -> ast.AST | None:
    owner, _, name = entry.rpartition(".")
    body: list[ast.stmt] = source.tree.body
    if owner:
        body = next((part.body for part in body if isinstance(part, ast.ClassDef) and part.name == owner), [])
    return next((part for part in body if isinstance(part, ast.FunctionDef) and part.name == name), None)


def _collect(interp: Interpreter, found: _Collected) -> None:
    """Add what one run has shown."""
    given = tuple(asked.answer for asked in interp.policy.asked)
    path = interp.policy.path._replace(answers=given)
    _collect_changes(interp.tape, found, path)
    _collect_escapes(interp, found, path)
    _collect_detachments(interp.tape, found, path)
    _collect_errors(interp, found, path)
    _collect_passes(interp, found)
    found.used |= interp.tape.reached | interp.tape.emptied
    found.executed |= interp.log.executed
    found.followed += path.entry == MODULE
    found.crashes |= interp.log.crashes
    found.rootless |= interp.tape.rootless


def _collect_changes(tape: Tape, found: _Collected, path: Path) -> None:
    """Passes through what was freed or changed, and changes that autograd refuses."""
    for stale in _distinct(
        tape.stale, lambda one: _story(one.node, one.reader, (*one.outside, *one.provenance), one.freed, one.failed)
    ):
        found.facts.setdefault(_stale_fact(stale, tape), path)
    for clobbered in _distinct(
        tape.clobbered,
        lambda one: _story(one.node, one.reader, (*one.outside, *one.provenance), one.change, one.failed),
    ):
        found.facts.setdefault(_overwritten_fact(clobbered, tape), path)
    for site, mixed in tape.leaf_changes.items():
        found.facts.setdefault(LeafChanged(changed=site.span, name=site.source.text_of(site.node), mixed=mixed), path)
    for site, (made, origin) in tape.parts_changed.items():
        told = origin.span if origin is not None else None
        part = PartChanged(made=made.span, changed=site.span, constructed=told, name=site.source.text_of(site.node))
        found.facts.setdefault(part, path)
    for site in tape.outs:
        found.facts.setdefault(OutGiven(changed=site.span, name=site.source.text_of(site.node)), path)


def _collect_escapes(interp: Interpreter, found: _Collected, path: Path) -> None:
    """Graphs that are held for nothing or go where none can, and losses of several elements."""
    tape = interp.tape
    for kept in holding.held(interp):
        held = _held_fact(kept)
        found.holdings[held] = kept
        found.facts.setdefault(held, path)
    for site, escape in tape.escapes.items():
        found.facts.setdefault(_escape_fact(site, escape, tape), path)
    unreduced_at = {site for _, site, _, _ in tape.unreduced}
    found.reduced.update(site.span.line for site in tape.reduced - unreduced_at)
    for root, site, name, by_row in tape.unreduced:
        certainty = Certainty.LIKELY if root.cell.extent.several is BatchSize.LIKELY else Certainty.CERTAIN
        made = root.cell.node.site.span
        unreduced = NotScalar(certainty=certainty, made=made, failed=site.span, by_row=by_row, name=name)
        found.facts.setdefault(unreduced, path)


def _collect_detachments(tape: Tape, found: _Collected, path: Path) -> None:
    """Passes that lack the graph of their root, or a part of it."""
    cut: set[Fact] = set()
    for rootless in tape.cut:
        if any(leaf.asked for leaf in rootless.copies):
            continue  # somebody wants the gradient of the copy itself
        dropped = _cut_fact(rootless, tape)
        found.facts.setdefault(dropped, path)
        cut.add(dropped)
    found.shown.update(cut if path.entry == MODULE else ())
    for rootless in _distinct(tape.partial, lambda one: (one.detachment.cuts[-1].site, one.site)):
        dropped = _cut_fact(rootless, tape)
        if not dropped.wanted or tape.unknown_owner:
            continue
        in_block = any(
            one.guard is not None and isinstance(one.guard.node, ast.With) for one in rootless.detachment.cuts
        )
        if cuts.is_unrecorded(rootless.detachment) and _misses_a_group(rootless, tape):
            found.facts.setdefault(dropped, path)
        elif not in_block and _shares_an_optimizer(dropped, tape):
            if not cuts.is_unrecorded(rootless.detachment) or _trains_no_layer(tape):
                found.facts.setdefault(dropped, path)


def _collect_errors(interp: Interpreter, found: _Collected, path: Path) -> None:
    """Calls that PyTorch refuses by themselves."""
    tape = interp.tape
    for site, (made, name, on_gpu) in tape.computed.items():
        found.facts.setdefault(ComputedParameter(made=made.span, owner=site.span, name=name, on_gpu=on_gpu), path)
    for site, made in tape.beside.items():
        name = made.source.text_of(made.node)
        found.facts.setdefault(PartBeside(made=made.span, failed=site.span, name=name), path)
    for site, guard in tape.inference.items():
        found.facts.setdefault(InferenceSaved(guard=guard.span, used=site.span), path)
    for (name, _), site in interp.log.legacy.items():
        found.facts.setdefault(LegacyApi(call=site.span, name=name), path)
    for site, forward in interp.log.old_functions.items():
        name = site.source.text_of(site.node)
        found.facts.setdefault(LegacyFunction(call=site.span, defined=forward.span, name=name), path)


def _collect_passes(interp: Interpreter, found: _Collected) -> None:
    """What the passes train, and the edges of useful gradient flow."""
    tape = interp.tape
    known = tape.owned and not tape.unknown_owner
    place = cache(_place)
    for one in tape.passes:
        line = one.site.line
        found.passes.add(line)
        if not one.idle:
            found.training.add(line)

        def useful(leaf: Leaf, one: BackwardCall = one) -> bool:
            return not known or (id(one), leaf.name) in tape.served

        for consumer, producer in useful_edges(one, useful):
            found.edges.add(_edge(one, consumer, producer, place))
    found.ways |= tape.trained
    found.waiting |= tape.waiting
    found.faded |= tape.faded
    for one in _later(tape.passes):
        found.repeated.add(one.site.line)
        found.later.update((one.site.line, leaf.name) for leaf in tape.owned if (id(one), leaf.name) in tape.served)
        found.later.update((one.site.line, name) for name in tape.reserves)


T = TypeVar("T")


def _distinct(told: Iterable[T], story: Callable[[T], Hashable]) -> list[T]:
    """Those with stories of their own, the first of each: a loop that is run many times tells the same ones again."""
    first: dict[Hashable, T] = {}
    for one in told:
        first.setdefault(story(one), one)
    return list(first.values())


def _story(
    node: Node,
    reader: Node | None,
    provenance: tuple[StoreEvent, ...],
    between: BackwardCall | Change,
    failed: BackwardCall,
) -> Hashable:
    """What a fact is made of, as places: two with the same become the same fact."""
    return (
        (node.site, node.stack, node.opaque, crossing(node.loops, failed.loops) is None),
        (reader.site, reader.stack) if reader is not None else None,
        tuple(
            (one.statement, one.name, crossing(one.loops, failed.loops) is None, one.clock < between.clock)
            for one in provenance
        ),
        between.site,
        failed.site,
    )


def _edge(one: BackwardCall, consumer: Node, producer: Node, place: Callable[[Node], Place]) -> Edge:
    gap = () if producer.leaf is not None else distance(producer.loops, one.loops)
    lag = () if producer.leaf is not None else distance(producer.loops, consumer.loops)
    return Edge(one.site.line, place(consumer), place(producer), gap, lag)


def _place(node: Node) -> Place:
    name = node.leaf.name if node.leaf is not None else node.operation
    calls = tuple((site.line, _column(site), _called(site.node)) for site in node.stack)
    return Place(name, node.site.line, _column(node.site), calls)


def _called(node: ast.AST) -> str:
    """The name of what a call calls; empty for what else leads into a function: an operator, a property."""
    return last_name(node.func) if isinstance(node, ast.Call) else ""


def _column(site: Site) -> int:
    return site.node.col_offset * 1000 + (site.node.end_col_offset or 0) % 1000


def _ranked(edges: set[Edge]) -> Iterator[Edge]:
    """The edges with columns replaced by their order on the line: an edit shifts columns, not their order."""
    columns: dict[tuple[str, int], set[int]] = {}
    for place in {place for edge in edges for place in (edge.consumer, edge.producer)}:
        columns.setdefault((place.operation, place.line), set()).add(place.rank)
        for line, column, name in place.calls:
            columns.setdefault((f"{name}()", line), set()).add(column)
    order = {key: {column: rank for rank, column in enumerate(sorted(found))} for key, found in columns.items()}

    @cache
    def ranked(place: Place) -> Place:
        calls = tuple((line, order[f"{name}()", line][column], name) for line, column, name in place.calls)
        return place._replace(rank=order[place.operation, place.line][place.rank], calls=calls)

    for edge in edges:
        yield edge._replace(consumer=ranked(edge.consumer), producer=ranked(edge.producer))


def _parting(freed: BackwardCall, failed: BackwardCall) -> tuple[Span, Span] | None:
    """The innermost calls that led to the one pass and not to the other, where the passes are one statement."""
    first, second = [*freed.stack, freed.site], [*failed.stack, failed.site]
    while first and second and first[-1] == second[-1]:
        first.pop()
        second.pop()
    apart = first and second and freed.site == failed.site
    return (first[-1].span, second[-1].span) if apart else None


def _apart(change: Change, failed: BackwardCall) -> tuple[Span, Span] | None:
    """The calls of one function that led to a change and to the pass, where they stand in other functions."""
    first, second = [*change.stack, change.site], [*failed.stack, failed.site]
    common = 0
    while common < min(len(first), len(second)) - 1 and first[common] == second[common]:
        common += 1
    if first[common] is change.site and second[common] is failed.site:
        return None
    return first[common].span, second[common].span


def _enters(node: Node | None) -> bool:
    """Whether a node belongs to a layer with parameters, or only passes tensors on to one; not to a loss."""
    if node is None:
        return False
    passes_on = node.operation in ("cat", "stack", "select", "index", "clone", "view", "reshape", "flatten")
    return passes_on or any(operand.node.leaf is not None for operand in node.operands)


def _mixes(reader: Node | None) -> bool:
    """Whether an operation combines several graphs element by element; a sum of losses is no such thing."""
    if reader is None or reader.scalar or reader.operation not in ("add", "sub", "mul", "div"):
        return False
    return len({id(operand.node) for operand in reader.operands}) > 1


def _made(node: Node, provenance: tuple[StoreEvent, ...]) -> Span:
    """Where a value was made: the expression in the first statement that kept it, else where its node is."""
    ordered = sorted(provenance, key=lambda kept: kept.clock)
    if ordered:
        statement = ordered[0].statement.span
        for site in (*node.stack, node.site):
            if statement.contains(site.span):
                return site.span
    return node.site.span


def _carriers(provenance: tuple[StoreEvent, ...]) -> tuple[Carrier, ...]:
    carriers = (
        Carrier(
            kept.statement.span,
            kept.expression.span if kept.expression else None,
            kept.name,
            kept.form,
            kept.items,
            kept.whole,
        )
        for kept in sorted(provenance, key=lambda kept: kept.clock)
    )
    return tuple(dict.fromkeys(carriers))  # a comprehension carries all items on by one statement


def _last_before(provenance: tuple[StoreEvent, ...], moment: Loops, clock: int) -> StoreEvent | None:
    """The statement that carried the value over: the last one of an earlier iteration, or else before *clock*."""
    ordered = sorted(provenance, key=lambda kept: kept.clock)
    over = [kept for kept in ordered if crossing(kept.loops, moment) is not None]
    over = [kept for kept in over if not _only_names(kept)] or over
    if not over:
        over = [kept for kept in ordered if kept.clock < clock]
    named = [kept for kept in over if kept.name and not (kept.whole and kept.whole.startswith("$x."))] or over
    named = [kept for kept in named if kept.name]
    carried = named or over
    return carried[-1] if carried else None


def _only_names(kept: StoreEvent) -> bool:
    """Whether a statement only gives a container that is kept elsewhere another name: ``past = self.memory[key]``.

    So does a loop over its items, or a comprehension, for as long as it runs.
    """
    if kept.expression is None and isinstance(kept.statement.node, (ast.For, ast.AsyncFor)):
        return True
    if kept.expression is None and isinstance(kept.statement.node, (ast.Assign, ast.AugAssign, ast.Return)):
        targets = getattr(kept.statement.node, "targets", None) or [getattr(kept.statement.node, "target", None)]
        names = {part.id for one in targets if one for part in ast.walk(one) if isinstance(part, ast.Name)}
        return kept.name.isidentifier() and kept.name not in names
    if kept.form is Form.TENSOR or kept.expression is None:
        return False
    return isinstance(kept.expression.node, (ast.Subscript, ast.Attribute))


def _stale_fact(stale: FreedGraphUse, tape: Tape) -> StaleGraph:
    point = crossing(stale.freed.loops, stale.failed.loops)
    kept = _last_before(stale.provenance, stale.failed.loops, stale.freed.clock)
    node, reader = stale.node, stale.reader
    certain = stale.surely and not (_part_of_opaque(node) or (reader is not None and reader.opaque))
    inside = point is not None and any(there.instance == point.instance for there in node.loops)
    behind = _under(node) if point is not None and not inside else []
    return StaleGraph(
        made=_made(node, stale.provenance),
        kept=kept.statement.span if kept else None,
        used=reader.site.span if reader else stale.failed.site.span,
        walked=stale.walked.site.span if stale.walked else None,
        freed=stale.freed.site.span,
        failed=stale.failed.site.span,
        loop=point.statement.span if point else None,
        inside=inside,
        sources=_carriers(_sources(behind)),
        computed_by=_computed_by(behind),
        carriers=_carriers(stale.provenance),
        outside=_carriers(stale.outside),
        outer=Outer(
            outer_site(node, stale.failed).span,
            outer_site(reader, stale.failed).span,
            outer_site(stale.walked, stale.failed).span if stale.walked else None,
            outer_site(stale.walked, stale.freed).span if stale.walked else None,
            (_enters(reader), _enters(stale.walked)),
            _mixes(reader),
            _parting(stale.freed, stale.failed),
            *(() if inside else rivals.attribute_gradient(node, (stale.freed, stale.failed), tape)),
        ),
        together=bool(stale.freed.steps) and stale.freed.steps == stale.failed.steps and not stale.freed.served_again,
        name=kept.name if kept else "",
        certainty=Certainty.CERTAIN if certain else Certainty.LIKELY,
        severed=rivals.severed(node, (stale.freed, stale.failed), tape) if point is None else None,
    )


_MOST_NODES = 4_000
"""Nodes of a graph that are looked at for the statements by which all of it came."""


def _with_all_computed(facts: tuple[Fact, ...]) -> tuple[Fact, ...]:
    """*facts*, each with what the others are computed of that cross the same loop to the same pass."""
    shared: dict[tuple[Span, Span], set[Span]] = {}
    crossing_one = {f: (f.loop, f.failed) for f in facts if isinstance(f, StaleGraph) and f.loop and not f.inside}
    for fact, way in crossing_one.items():
        shared.setdefault(way, set()).update(fact.computed_by, [fact.kept] if fact.kept is not None else [])
    return tuple(
        replace(fact, computed_by=tuple(sorted(shared[crossing_one[fact]]))) if fact in crossing_one else fact
        for fact in facts
    )


def _under(node: Node) -> list[Node]:
    """The nodes of the graph that ends in *node*, in the order in which they were made; none where there are many."""
    reached = {id(node): node}
    pending = [node]
    while pending and len(reached) <= _MOST_NODES:
        for operand in pending.pop().operands:
            if id(operand.node) not in reached:
                reached[id(operand.node)] = operand.node
                pending.append(operand.node)
    return sorted(reached.values(), key=lambda node: node.clock) if not pending else []


def _computed_by(nodes: list[Node]) -> tuple[Span, ...]:
    """The statements that keep what *nodes* are computed of, but for the parameters themselves."""
    kept = [
        one for node in nodes for operand in node.operands if operand.node.leaf is None for one in operand.provenance
    ]
    return tuple(dict.fromkeys(one.statement.span for one in sorted(kept, key=lambda one: one.clock)))


def _sources(nodes: list[Node]) -> tuple[StoreEvent, ...]:
    """The statements by which everything came that has a graph in *nodes*: to detach there is to detach it all."""
    if not nodes:
        return ()
    common: dict[int, dict[Hashable, StoreEvent]] = {}
    for one in nodes:
        ways = [
            common[id(operand.node)]
            | {(kept.statement, kept.expression, kept.name): kept for kept in operand.provenance}
            for operand in one.operands
        ]
        first = ways[0] if ways else {}
        common[id(one)] = {key: kept for key, kept in first.items() if all(key in way for way in ways)}
    return tuple(common[id(nodes[-1])].values())


def _part_of_opaque(node: Node) -> bool:
    """Whether a node stands for a call that was not read, or for an item of what it gave back."""
    while node.operation == "select" and node.operands:
        node = node.operands[0].node
    return node.opaque


def _overwritten_fact(clobbered: SavedTensorModified, tape: Tape) -> Overwritten:
    node, reader = clobbered.node, clobbered.reader
    point = crossing(node.loops, clobbered.failed.loops)
    kept = _last_before(clobbered.provenance, clobbered.failed.loops, clobbered.change.clock)
    read = reader.operands if reader is not None else ()
    walked = node.walked if point is None else None
    shared = next((operand.node for operand in read if operand.provenance == clobbered.provenance), None)
    shared = shared or (rivals.parting(node, walked, clobbered.failed) if walked else node)
    return Overwritten(
        saved=_made(node, clobbered.provenance) if reader else node.site.span,
        kept=kept.statement.span if kept and reader else None,
        used=reader.site.span if reader else None,
        changed=clobbered.change.site.span,
        constructed=clobbered.change.origin.span if clobbered.change.origin else None,
        retained=node.walked.site.span if node.walked and node.walked is not clobbered.failed else None,
        failed=clobbered.failed.site.span,
        loop=point.statement.span if point else None,
        inside=point is not None and any(there.instance == point.instance for there in node.loops),
        carriers=_carriers(clobbered.provenance) if reader else (),
        outside=_carriers(clobbered.outside) if reader else (),
        outer=Outer(
            outer_site(node, clobbered.failed).span,
            outer_site(reader, clobbered.failed).span,
            None,
            None,
            (_enters(reader), False),
            _mixes(reader),
            _apart(clobbered.change, clobbered.failed),
            *(rivals.attribute_gradient(shared, (walked, clobbered.failed), tape) if walked else ()),
        ),
        name=kept.name if kept and reader else "",
        by_step=clobbered.change.by_step,
        parameter=clobbered.change.parameter,
        operation=node.site.span,
        part=clobbered.change.part,
        certainty=Certainty.LIKELY if node.opaque else Certainty.CERTAIN,
        severed=rivals.severed(shared, (walked, clobbered.failed), tape) if walked else None,
    )


def _escape_fact(site: Site, escape: GraphLeak, tape: Tape) -> Fact:
    value = escape.value.span if escape.value is not None else None
    text = site.source.text_of(site.node)
    if escape.where in ("process", "workers"):
        carriers = _carriers(escape.kept)
        trained = {name for _, name in tape.trained}
        # Who steps what it was computed with, and trains it nowhere else, does not want it without its graph.
        meant = any(leaf in tape.stepped and leaf.name not in trained for leaf in escape.behind)
        form = Form.OTHER if meant else escape.form
        served = escape.where == "workers"
        return GraphSent(call=site.span, value=value, carriers=carriers, form=form, by_loader=served, name=text)
    if escape.where == "numpy":
        return GraphEscapes(call=site.span, value=value, form=escape.form, name=text)
    kept = escape.kept[0] if escape.kept and escape.value is None else None
    name = kept.name if kept is not None else site.source.text_of(escape.value.node) if escape.value else text
    return GraphCopied(
        kept=kept.statement.span if kept is not None else None,
        call=site.span,
        carriers=_carriers(escape.kept),
        value=value,
        form=escape.form,
        path=escape.path,
        name=name,
    )


def _held_fact(one: RetainedGraph) -> GraphHeld:
    return GraphHeld(
        kept=one.kept.statement.span,
        loop=one.point.statement.span,
        expression=one.kept.expression.span if one.kept.expression is not None else None,
        form=one.kept.form,
        handed=next(iter(holding.written_for(one)), None) if one.handed else None,
        parts=holding.written_for(one),
        evaluates=one.evaluates,
        mixed=one.mixed,
        name=one.kept.name,
        certainty=Certainty.LIKELY if one.bounded or any(cell.node.opaque for cell in one.cells) else Certainty.CERTAIN,
    )


def _cut_fact(rootless: BackwardWithoutGraph, tape: Tape) -> CutGraph:
    owned = tape.owned
    drops = rootless.detachment.cuts
    # What is frozen beside these may well be meant to be.
    drops = tuple(one for one in drops if one.how in ("unflagged", "reentrant")) or drops
    cut = next((one for one in drops if one.nodes), drops[0])
    graph = [node for one in drops for node in one.nodes]
    guard = next((one.guard for one in drops if one.guard is not None), None)
    frozen = [leaf for one in drops for leaf in one.leaves if leaf.frozen_at is not None]
    kept = [leaf for leaf in frozen if leaf in owned]
    taken = (kept or frozen)[-1].frozen_at if frozen else None
    # What to put in the place of a comparison is a choice: the pass fails for certain, but not every loss is meant so.
    doubtful = any(node.opaque for node in graph) or any(one.how == "integer" for one in drops)
    owner = tape.owners.get(kept[-1]) if kept else None
    return CutGraph(
        cut=cut.site.span,
        guard=guard.span if guard is not None else None,
        frozen=taken.span if taken is not None else None,
        owner=owner.span if owner is not None else None,
        failed=rootless.site.span,
        drops=tuple(Drop(one.site.span, one.how) for one in drops),
        several=rootless.detachment.several and any(one.how != "reentrant" for one in drops),
        silent=rootless.silent,
        beside=rootless.beside,
        lasting=guard is not None and isinstance(guard.node, ast.Call),
        wanted=tuple(sorted(leaf.name for leaf in {*cuts.leaves_under(graph), *kept} if leaf in owned)),
        built=tuple(dict.fromkeys(leaf.node.site.span for leaf in kept if leaf.node is not None)),
        spared=len(set(kept)) < len(set(frozen)),
        probable=bool(graph) and all(cuts.is_probability(node) for node in graph),
        name=rootless.name,
        certainty=Certainty.LIKELY if doubtful else Certainty.CERTAIN,
    )


def _later(passes: list[BackwardCall]) -> Iterator[BackwardCall]:
    """The passes that are not the first at their place, in their run of the loop around them where any run has several.

    A state that each sequence begins anew leaves a first pass in every sequence.
    """
    runs = Counter((one.place, one.loops[-1].instance) for one in passes if one.loops)
    several = {place for (place, _), count in runs.items() if count > 1}
    begun: set[tuple[tuple[int, ...], int]] = set()
    for one in passes:
        run = (one.place, one.loops[-1].instance if one.loops and one.place in several else -1)
        if run in begun:
            yield one
        begun.add(run)


def _shares_an_optimizer(fact: CutGraph, tape: Tape) -> bool:
    """Whether one optimizer holds all that a pass misses, and something that the pass trains."""
    trained = {name for place, name in tape.trained if place[0] == fact.failed.line}
    owners = {leaf.name: site for leaf, site in tape.owners.items()}
    sites = {owners.get(name) for name in fact.wanted}
    return len(sites) == 1 and bool(sites & {owners.get(name) for name in trained} - {None})


def _misses_a_group(rootless: BackwardWithoutGraph, tape: Tape) -> bool:
    """Whether a group that an optimizer was given for itself is behind a block that records nothing, in every pass."""
    guards = [one.guard for one in rootless.detachment.cuts if one.guard is not None]
    if any(_is_conditional(guard) for guard in guards):
        return False
    behind = cuts.leaves_under(node for one in rootless.detachment.cuts for node in one.nodes)
    return any(
        group.leaves
        and group.leaves <= behind
        and not any(leaf.frozen for leaf in group.leaves)
        and not any(
            one.clock > group.clock and any(node.leaf in group.leaves for edge in one.edges for node in edge)
            for one in tape.passes
        )
        for group in tape.groups
    )


def _is_conditional(guard: Site) -> bool:
    """Whether a block is entered in some cases only."""
    return any(
        isinstance(around, (ast.If, ast.Try)) and any(part is guard.node for part in ast.walk(around))
        for around in ast.walk(guard.source.tree)
    )


def _trains_no_layer(tape: Tape) -> bool:
    """Whether of all that the optimizers hold, no layer is trained, a scale or another bare parameter at most."""
    trained = {name for _, name in tape.trained}
    layers = [leaf for leaf in tape.owned if not leaf.name.startswith(_BARE)]
    return len(layers) > 1 and not any(leaf.name in trained for leaf in layers)


_BARE = ("Parameter:", "tensor:")


_BEFORE_THE_END = (ComputedParameter, LegacyApi, LegacyFunction)
"""What else is told of a path on which an optimizer is refused what it is given."""


def _without_echoes(facts: dict[Fact, Path]) -> Iterator[Fact]:
    """Facts once each: a story gives way to the same one of which another path tells more."""
    for fact in facts:
        if not any(one in facts for one in _fuller(fact)):
            yield fact


def _fuller(fact: Fact) -> Iterator[Fact]:
    """The same story, told with more certainty, or of a row in which there are numbers, too."""
    if fact.certainty is not Certainty.CERTAIN:
        yield replace(fact, certainty=Certainty.CERTAIN)
    if isinstance(fact, GraphHeld) and not fact.mixed:
        yield replace(fact, mixed=True)
