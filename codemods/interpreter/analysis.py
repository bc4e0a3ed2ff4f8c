"""The static witness: what the symbolic tape saw on every path through a source file."""

from __future__ import annotations

import ast
import gc
from collections.abc import Collection, Hashable
from dataclasses import dataclass, field, replace
from functools import cache, partial
from itertools import islice

from autofix.codemods.checks import flow
from autofix.codemods.checks.checks import Checks
from autofix.codemods.checks.known import Edge, Known
from autofix.codemods.checks.layers import ThroughLayers
from autofix.codemods.facts.base import Certainty, Doubt, Fact
from autofix.codemods.facts.changed import Overwritten, PartChanged
from autofix.codemods.interpreter import (
    callbacks,
    calls,
    class_lookup,
    cuts,
    frameworks,
    holding,
    lived,
    prepared,
    supposed,
    switches,
)
from autofix.codemods.interpreter.entries import MODULE, entries, is_model_that_overwrites, may_go_wrong, ways
from autofix.codemods.interpreter.interpreter import GaveUp, ProgramInterpreter
from autofix.codemods.interpreter.policy import BranchPolicy, Path, Paths
from autofix.codemods.interpreter.protocol import Interpreter
from autofix.codemods.interpreter.values import Binding, Class, Function, Instance, Sequence, Value
from autofix.codemods.source import reach
from autofix.codemods.source.program import Program
from autofix.codemods.source.reach import Missed
from autofix.codemods.source.sources import Source, Sources

PATHS = 16
"""Paths through one program that are followed."""
PATHS_OF_MODEL = 2
"""Paths through a model whose result is sent backward."""
_OF_MODELS = (Overwritten, PartChanged)
"""The mistakes that are a model's own, whoever trains it."""
MODELS = 8
"""Models that are trained on one path."""
PATHS_OF_FUNCTION = 4
"""Paths through one function that nobody in the module calls."""
IDLE = 25_000
"""Expressions and statements evaluated on paths that show nothing new, one after the other, before no further path
through the same code is begun."""
LOST = 100_000
"""As ``IDLE``, for a script without a path to a pass so far: the default of an option may name no mode at all."""
STEPS = 250_000
"""Expressions and statements evaluated over all paths before no further path is begun."""


@dataclass(frozen=True)
class AnalysisResult:
    """Everything that the paths through a program showed.

    ``edges`` are those of useful gradient flow: fresh when their pass walked them, and leading to a parameter that is
    trained.  ``trained`` says which pass (by line) gave which parameter a gradient that a step used.
    ``crashes`` are errors that the program certainly meets, each with its line, ``rootless`` the lines of
    passes whose root has no graph, ``passes`` those of all passes.
    """

    facts: tuple[Fact, ...] = ()
    edges: frozenset[Edge] = frozenset()
    renewed: frozenset[Edge] = frozenset()
    """Those of passes that were not the first at their place: what an iteration computes for itself."""
    trained: frozenset[tuple[int, str]] = frozenset()
    ways: frozenset[tuple[tuple[int, ...], str]] = frozenset()
    """As ``trained``, with the lines of the calls that led to the pass: one method may send two losses backward."""
    updated: frozenset[tuple[str, int, int]] = frozenset()
    """Parameters, by name, the lines of the steps that use a gradient of theirs, and of the passes that gave it."""
    through: ThroughLayers = field(default_factory=ThroughLayers)
    """Through which layers the parameters are trained."""
    waiting: frozenset[tuple[tuple[int, ...], str]] = frozenset()
    """Places, by lines, that read parameters of which a gradient waited for its step."""
    once: frozenset[tuple[int, str]] = frozenset()
    """Parameters that only the first of several passes at a line trained."""
    crashes: frozenset[tuple[int, str]] = frozenset()
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
    """The passes among them that no path reached."""
    alone: bool = False
    """Whether the program has one path only, which then shows everything."""
    supposed: frozenset[str] = frozenset()
    """The models of which no pass is known and whose results were sent backward, by their entries."""


def _result(checks: Checks) -> AnalysisResult:
    """The result of the analysis: the facts and observations of all paths."""
    known = checks.known
    facts = checks.left()
    trained = known.trained
    ranked = dict(zip(known.edges, flow.ranked(known.edges), strict=True))
    return AnalysisResult(
        checks.completed(facts),
        frozenset(ranked.values()),
        frozenset(ranked[edge] for edge in known.renewed),
        frozenset(trained),
        frozenset(known.ways),
        frozenset((name, step.line, place) for name, step, place in known.updated),
        known.through,
        frozenset(known.waiting),
        frozenset(known.faded | {one for one in trained if one[0] in known.repeated and one not in known.later}),
        frozenset(known.crashes),
        frozenset(known.rootless),
        frozenset(known.passes),
        known.complete,
        tuple(known.facts[fact] for fact in facts),
        known.steps,
        frozenset(call.lineno + source.start for source, call in reach.written(known.sources)),
        tuple(reach.missed(known.sources, known.read | known.rootless, known.executed, complete=known.complete)),
        known.every == 1,
        frozenset(known.supposed),
    )


def analyze(program: Program, only: Path | None = None, untrained: Collection[str] = ()) -> AnalysisResult:
    """Follow the program's paths, or *only* one of them, and say what goes wrong on its tape.

    The *untrained* models are looked at even where nothing in them is changed in place any more.
    Raises :class:`SyntaxError` where a file of the program does not parse.
    """
    sources = Sources(program)
    if not untrained and not may_go_wrong(source.text for source in sources.all):
        return AnalysisResult()
    collects = gc.isenabled()
    gc.disable()  # a path is many small objects that live to its end: to look through them again and again is waste
    try:
        return _observe(sources, only, untrained)
    finally:
        if collects:
            gc.enable()


def _observe(sources: Sources, only: Path | None, untrained: Collection[str]) -> AnalysisResult:
    found = Known(sources=sources.all)
    checks = Checks(found)
    if only is not None:
        _follow(sources, BranchPolicy(only), checks)
        if found.losses_of_calls:
            _follow(sources, BranchPolicy(only), checks)
        return replace(_result(checks), alone=False)
    found.ways_to_passes = cache(partial(ways, sources))
    called: set[ast.AST] = set()
    trained: set[ast.AST] = set()
    imported: set[Hashable] = set()
    begins = list(entries(sources))
    found.prelude.serves_several = sum(entry != MODULE for entry, _ in begins) > 1
    for entry, sends in begins:
        if _function_node(sources.main, entry) in called:
            continue
        first = Path(entry=entry, passless=not sends)
        assumed = _assumed(found)
        reached = _follow_all(sources, Paths(_most(entry), first, imported), checks, called, trained)
        if _assumed(found) > assumed and not _is_spent(found):
            reached = _follow_all(sources, Paths(_most(entry), first, imported), checks, called, trained)
        if sends and "." in entry and not _is_spent(found) and not (reached and _all_reached(sources, entry, found)):
            # The function waits for a memory to fill, or trains a second network every few steps.
            aged = first._replace(lived=True)
            _follow_all(sources, Paths(_most(entry), aged, imported), checks, called, trained)
        if _is_spent(found):
            return _result(checks)
    _suppose(sources, checks, trained, untrained)
    # Other facts there would be mistakes of the code that calls the model, or none: it has not been read.
    known = {fact: path for fact, path in found.facts.items() if not path.supposed or isinstance(fact, _OF_MODELS)}
    found.facts = known
    return _result(checks)


def _assumed(found: Known) -> int:
    """Number of results of unread code that paths have seen sent backward."""
    return sum(map(len, found.losses_of_calls.values()))


def _all_reached(sources: Sources, entry: str, found: Known) -> bool:
    """Whether paths came to all the passes that are written in a function."""
    source = sources.main
    node = _function_node(source, entry)
    own = set(source.nodes.within(node)) if node is not None else set()
    lines = (call.lineno + source.start for _, call in reach.written([source]) if call in own)
    return all(line in found.passes or line in found.rootless for line in lines)


def _most(entry: str) -> int:
    """Number of paths that are followed from an entry."""
    return PATHS if entry == MODULE else PATHS_OF_FUNCTION


def _is_spent(found: Known) -> bool:
    """Whether no further path is to be begun."""
    return found.steps > STEPS or not found.complete


def _follow_all(sources: Sources, paths: Paths, checks: Checks, called: set[ast.AST], trained: set[ast.AST]) -> bool:
    """Follow *paths* for as long as they show something, and say whether one came to a backward pass.

    Adds the functions that were *called*, and those that were where a path came to a pass, which is *trained*.
    """
    found, reached, idle = checks.known, False, 0
    known = set(found.facts)
    runs: list[switches.Run] = []
    for policy in paths:
        before, steps = checks.extent(), found.steps
        interp, facts = _follow(sources, policy, checks)
        runs.append(switches.run_of(interp, facts))
        called |= interp.log.called
        if interp.tape.passes or interp.tape.rootless or interp.incidents.cut:
            reached = True
            trained |= interp.log.called
        policy.shows_more = checks.extent() != before
        policy.is_unusual = runs[-1].is_unusual
        is_first = not (policy.path.answers or policy.path.prefer_false)
        idle = 0 if policy.shows_more or is_first else idle + found.steps - steps
        limit = LOST if policy.path.entry == MODULE and not reached else IDLE
        if _is_spent(found) or idle > limit:
            break
    if len(runs) < 2:
        return reached
    for fact in switches.of_other_kinds(runs, found.sources) - known:
        found.facts.pop(fact, None)
    for fact in switches.switched(runs, found.sources) - known:
        # Some are completed once all paths are known.
        if fact in found.facts and not checks.of(fact).is_of_a_call:
            checks.doubt(fact, Doubt.SWITCH)
    return reached


def _suppose(sources: Sources, checks: Checks, trained: set[ast.AST], known: Collection[str]) -> None:
    """Send backward what the models of the main file compute that no pass of the program is known to train.

    Several are trained on one path, one after the other: what is imported and defined before is executed once.  Those
    *known* from before a patch are trained again.
    """
    if not known and not is_model_that_overwrites(sources.main.text):
        return
    found = checks.known
    models = supposed.forwards(sources, trained, known)
    while several := [entry for entry, _ in islice(models, MODELS)]:
        found.prelude.serves_several |= len(several) == MODELS
        found.supposed.update(several)
        as_made = Path(entry=" ".join(several), supposed=True, by_default=True)
        switched = False
        for policy in Paths(PATHS_OF_MODEL, as_made):
            interp, _ = _follow(sources, policy, checks)
            trained |= interp.log.called
            switched = switched or supposed.has_options(interp)
            if _is_spent(found):
                return
        if switched:  # with all that the switches of the constructors switch on
            _follow(sources, BranchPolicy(as_made._replace(by_default=False)), checks)
            if _is_spent(found):
                return


def _follow(sources: Sources, policy: BranchPolicy, checks: Checks) -> tuple[Interpreter, set[Fact]]:
    """Run one path and collect what it shows; the facts among it are returned, too."""
    found = checks.known
    begun = found.prelude.begin(policy) if policy.path.entry != MODULE else None
    interp = begun or ProgramInterpreter(sources, policy)
    policy.ways = found.ways_to_passes
    interp.losses_of_calls = found.losses_of_calls
    try:
        if begun is None:
            _prepare(interp)
            found.prelude.keep(interp)
        _execute(interp, policy.path)
    except (GaveUp, RecursionError):
        found.complete = False
    finally:
        interp.close()
    facts = _collect(interp, checks)
    found.steps += interp.steps_taken + interp.steps_copied // 4
    found.every += 1
    return interp, facts


def _prepare(interp: Interpreter) -> None:
    """Run the module; with an *entry* of the path, as it is imported."""
    interp.globals.names["__name__"] = Binding("__main__" if interp.policy.path.entry == MODULE else "module")
    interp.run(interp.sources.main.tree.body)
    if interp.policy.path.entry == MODULE:
        callbacks.call(interp)
    interp.callbacks.clear()  # what a module hands over while it is imported is entered by itself


def _execute(interp: Interpreter, path: Path) -> None:
    """Call the functions that the path begins in, on arguments that nobody knows."""
    interp.policy.begun = len(interp.policy.asked) if path.entry != MODULE else 0
    interp.policy.entered = True
    for entry in path.entry.split():
        interp.exceptions.exited = False
        _enter(interp, entry, path)
        callbacks.call(interp)
    interp.exceptions.exited = False


def _enter(interp: Interpreter, entry: str, path: Path) -> None:
    """Call the function that *entry* names, on arguments that nobody knows."""
    owner, _, name = entry.rpartition(".")
    slot = interp.globals.names.get(owner or name)
    value = slot.value if slot is not None else None
    anchor = ast.Name(name, ast.Load(), lineno=1, col_offset=0, end_lineno=1, end_col_offset=0)
    if isinstance(value, Class):
        member = class_lookup.find(Instance(value), name)
        if not isinstance(member, Function) or (path.supposed and member.node in interp.log.called):
            return
        receiver = []
        if member.flavour != "staticmethod":
            given = _several(interp, value)
            if path.supposed:
                given |= supposed.options(interp, value)
            receiver = [calls.instantiate(interp, value, [], given, anchor)]
            if path.passless and member.node in interp.log.called:
                return
        interp.filled.clear()  # whoever calls the method may have called others before, and set flags
        if receiver and isinstance(receiver[0], Instance) and prepared.may_be_thawed(receiver[0], name):
            cuts.replaced(interp.leaves_of(receiver[0]))
        if receiver and path.supposed:
            supposed.train(interp, member, receiver[0], anchor)
            return
        if receiver and isinstance(receiver[0], Instance):
            _enter_method(interp, receiver[0], member, anchor, path)
        elif not (receiver and path.lived):
            holding.given_away(interp, calls.call_function(interp, member, receiver, {}, anchor))
    elif isinstance(value, Function):
        holding.given_away(interp, calls.call_function(interp, value, [], {}, anchor))


def _enter_method(interp: Interpreter, instance: Instance, method: Function, anchor: ast.expr, path: Path) -> None:
    """Call a method of an object that was just made, behind those without which it would fail."""
    methods = prepared.methods_of(instance)
    before = prepared.needed(instance, method.name)
    is_step = not path.passless and callbacks.is_training_step(method, methods)
    begun: set[ast.AST] = set()
    for one in list(before):
        calls.call_function(interp, methods[one], [instance], {}, anchor)
        if prepared.makes_parts(instance, methods[one]):
            before.remove(one)  # the others are called for each batch, as `set_input(batch)`
            begun.add(methods[one].node)
    given = _optional(interp, method) if path.lived else {}
    if path.lived and not (lived.age(interp, instance, set()) or given):
        return
    is_driven = frameworks.step_of(instance) == method.name
    if not (is_driven or is_step):
        holding.given_away(interp, calls.call_function(interp, method, [instance], given, anchor))
        return
    here, interp.source = interp.source, method.source  # of a base class in another file, maybe
    try:
        if is_driven:
            frameworks.drive(interp, instance, _head_of(method))
        else:
            names = [*before, method.name]
            holding.given_away(interp, callbacks.repeat(interp, instance, names, given, begun, _head_of(method)))
    finally:
        interp.source = here


def _several(interp: Interpreter, cls: Class) -> dict[str, Value]:
    """Arguments for the constructor of a class: whoever makes an object hands over more than a default of none."""
    made = class_lookup.find(Instance(cls), "__init__")
    defaults = made.defaults_by_name if isinstance(made, Function) else {}
    empty = (name for name, one in defaults.items() if isinstance(one, Sequence) and not (one.items or one.more))
    return {name: interp.fresh_symbol("parameter", name) for name in empty}


def _optional(interp: Interpreter, method: Function) -> dict[str, Value]:
    """Arguments for the parameters of a method that are None by default: a caller may have them (``hidden=None``)."""
    return {
        name: interp.fresh_symbol("parameter", name) for name, one in method.defaults_by_name.items() if one is None
    }


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


def _is_of_one_turn(interp: Interpreter, fact: Fact) -> bool:
    """Whether a mistake is one of a second iteration of a loop that by default has none."""
    return bool(interp.log.once) and any(role.name == "loop" and role.span in interp.log.once for role in fact.roles())


def _collect(interp: Interpreter, checks: Checks) -> set[Fact]:
    """Add what one run has shown, and return its facts."""
    found = checks.known
    facts: set[Fact] = set()
    given = tuple(asked.answer for asked in interp.policy.asked)
    path = interp.policy.path._replace(answers=given)
    for fact in checks.facts_of(interp):
        hangs = interp.policy.gives_options or _is_of_one_turn(interp, fact)
        driven = [role.span for role in fact.roles() if role.span in interp.log.driven]
        if driven and not hangs:
            is_handed = interp.log.driven[driven[0]] is None
            fact = checks.doubted(fact, Doubt.HANDED if is_handed else Doubt.ENTERED)
        if hangs and fact.certainty is Certainty.CERTAIN and not checks.of(fact).is_of_a_call:
            fact = checks.doubted(fact, Doubt.SWITCH)
        facts.add(fact)
        found.facts.setdefault(fact, path)
    flow.collect(interp, found)
    found.used |= interp.tape.reached | interp.incidents.emptied
    found.executed |= interp.log.executed
    found.unresolved |= interp.log.unresolved
    found.unentered |= interp.log.unentered
    found.handed |= interp.log.handed
    for span, called in interp.log.driven.items():
        found.driven[span] = None if called is None else {*(found.driven.get(span) or ()), *called}
    found.crashes |= interp.log.crashes
    found.rootless |= interp.tape.rootless
    return facts
