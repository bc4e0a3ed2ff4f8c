"""Values that a node saved, and that were changed before the pass that needs them."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from autofix.codemods.autograd.graph import SavedTensorModified, crossing, is_in_run
from autofix.codemods.autograd.tape import Tape
from autofix.codemods.checks import chains, separate_losses
from autofix.codemods.checks.check import Check
from autofix.codemods.checks.known import Known
from autofix.codemods.checks.story import (
    carried_within,
    carriers,
    distinct,
    enters,
    last_before,
    made,
    may_lead_nowhere,
    mixes,
    story,
    told,
)
from autofix.codemods.facts.base import Certainty, Span
from autofix.codemods.facts.changed import Overwritten
from autofix.codemods.facts.parts import Outer
from autofix.codemods.interpreter import rivals
from autofix.codemods.interpreter.protocol import Interpreter
from autofix.codemods.interpreter.rivals import outer_site
from autofix.codemods.interpreter.state.incidents import Incidents
from autofix.codemods.source.nodes import Nodes, imports
from autofix.codemods.source.sources import Site, dotted_name


class OverwrittenCheck(Check):
    """Whether a saved tensor was modified before the pass that needs it."""

    kinds = (Overwritten,)

    def facts(self, interp: Interpreter, known: Known) -> Iterator[Overwritten]:
        """Facts of overwritten saved tensors on one path, one for each story."""
        found = distinct(
            interp.tape.clobbered,
            lambda one: story(one.node, one.reader, (*one.outside, *one.provenance), one.change, one.failed),
        )
        yield from (
            _fact(one, interp.tape)
            for one in found
            if not (
                separate_losses.may_be_separate(one.node, one.node.walked, one.failed)
                or _ends_before(one, interp.incidents)
            )
        )


def _ends_before(clobbered: SavedTensorModified, incidents: Incidents) -> bool:
    """Whether the change ends the script before the pass: by the use of a view that it took the graph from."""
    ended = incidents.bases_changed.get(clobbered.change.site)
    return ended is not None and ended.used < clobbered.failed.clock


def _parted(clobbered: SavedTensorModified) -> tuple[Span, Span] | None:
    change, failed = clobbered.change, clobbered.failed
    parted = chains.apart([*change.stack, change.site], [*failed.stack, failed.site])
    return (parted[0].span, parted[1].span) if parted is not None else None


def _modified(site: Site) -> str:
    """The name of the tensor that a statement modifies in place; empty where it has none there."""
    found: ast.expr | None = None
    match site.node:
        case ast.AugAssign(target=target) | ast.Assign(targets=[target]) | (ast.Subscript() as target):
            found = target
        case ast.Call(func=ast.Attribute(value=owner, attr=method), args=args) if method.endswith("_"):
            of_library = dotted_name(owner).partition(".")[0] in site.source.nodes.once(_imported)
            found = owner if not of_library else args[0] if args else None
    while isinstance(found, ast.Subscript) and not _is_key(found.slice):
        found = found.value
    return site.source.text_of(found) if isinstance(found, (ast.Name, ast.Attribute, ast.Subscript)) else ""


def _is_shared_input(clobbered: SavedTensorModified) -> bool:
    """Whether the change is made in calls of several objects: ``a(x)`` and ``b(x)``.

    Calls of one object, ``cell(x)`` in a loop, may carry on what they change.
    """
    for storage, _ in clobbered.node.saved:
        if any(one is clobbered.change for one in storage.changes):
            calls = [one.stack[-1].node for one in storage.changes if one.site == clobbered.change.site and one.stack]
            called = {ast.unparse(call.func) for call in calls if isinstance(call, ast.Call)}
            return len(called) == len(calls) > 1
    return False


def _is_key(index: ast.expr) -> bool:
    return isinstance(index, ast.Constant) and isinstance(index.value, str)


def _imported(nodes: Nodes) -> set[str]:
    return {name for name, _ in imports(nodes)}


def _fact(clobbered: SavedTensorModified, tape: Tape) -> Overwritten:
    node, reader = clobbered.node, clobbered.reader
    point = crossing(node.loops, clobbered.failed.loops)
    kept = last_before(clobbered.provenance, clobbered.failed.loops, clobbered.change.clock, clobbered.node.clock)
    read = reader.operands if reader is not None else ()
    walked = node.walked if point is None else None
    shared = next((operand.node for operand in read if operand.provenance == clobbered.provenance), None)
    shared = shared or (rivals.parting(node, walked, clobbered.failed) if walked else node)
    origin = made(node, clobbered.provenance) if reader else node.site
    likely = not clobbered.surely or clobbered.change.guessed or node.opaque or may_lead_nowhere(node, tape)
    return Overwritten(
        saved=origin.span,
        kept=kept.statement.span if kept and reader else None,
        used=reader.site.span if reader else None,
        changed=clobbered.change.site.span,
        constructed=clobbered.change.origin.span if clobbered.change.origin else None,
        retained=node.walked.site.span if node.walked and node.walked is not clobbered.failed else None,
        failed=clobbered.failed.site.span,
        loop=point.statement.span if point else None,
        inside=point is not None and is_in_run(node.loops, point),
        carried_within=carried_within(kept, point),
        carriers=carriers(clobbered.provenance) if reader else (),
        outside=carriers(clobbered.outside) if reader else (),
        outer=Outer(
            outer_site(node, clobbered.failed).span,
            outer_site(reader, clobbered.failed).span,
            None,
            None,
            (enters(reader), False),
            mixes(reader),
            _parted(clobbered),
            *(rivals.attribute_gradient(shared, (walked, clobbered.failed), tape) if walked else ()),
        ),
        name=kept.name if kept and reader else "",
        text=told(origin),
        by_step=clobbered.change.by_step,
        parameter=clobbered.change.parameter,
        modified=_modified(clobbered.change.site),
        shared_input=_is_shared_input(clobbered),
        operation=node.site.span,
        part=clobbered.change.part,
        certainty=Certainty.LIKELY if likely else Certainty.CERTAIN,
        severed=rivals.severed(shared, (walked, clobbered.failed), tape) if walked else None,
    )
