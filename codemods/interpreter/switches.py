"""Mistakes that hang on a switch: the program has both ways, and only how it is configured decides between them.

``f = f.detach() if options.frozen else f`` is right or wrong by an option, whose value the source does not have.  The
other path executes the same statements and runs the same pass as often, without the error: such a mistake is likely.
A mistake in a branch of its own is certain all the same: whoever takes that branch meets it.
"""

from __future__ import annotations

import ast
import math
from collections import Counter
from collections.abc import Callable, Collection, Container, Hashable, Iterable, Mapping, Set
from typing import NamedTuple

from autofix.codemods.facts.base import Certainty, Fact, Span
from autofix.codemods.interpreter import counters
from autofix.codemods.interpreter.policy import (
    compares_dimensions,
    has_elements,
    is_emptiness,
    is_shape,
    is_size,
    varies,
)
from autofix.codemods.interpreter.protocol import Interpreter
from autofix.codemods.source.reach import statement_at
from autofix.codemods.source.sources import Source

_SECOND = 2
"""Passes after which what was done in the first iteration of a loop and in one that stands for any later one shows."""


class Run(NamedTuple):
    """One path as it was followed."""

    answers: Mapping[Hashable, bool]
    """The answer to each condition that was asked."""
    usual: Mapping[Hashable, bool | None]
    """The answers to these by the defaults of options; None where they do not say."""
    computed: Collection[Hashable]
    """Those of them that ask for numbers that a network gave: ``if torch.isfinite(loss)``."""
    uncertain: Collection[Hashable]
    """Those of them that ask for numbers that count, where no iteration may be one with this answer: ``if i < 99``."""
    looked_up: Container[Hashable]
    """Values, by their keys, that stay as they are although they are asked for in each iteration."""
    facts: frozenset[Fact]
    executed: Set[ast.stmt]
    passes: Mapping[Span, int]
    """Number of backward passes by their places."""
    left_off: Set[Span]
    """Loops of which the first iterations were run, and which go on as far as the run knows."""

    @property
    def is_unusual(self) -> bool:
        """Whether an option has another value than by default."""
        return any(self.usual[key] is (not answer) for key, answer in self.answers.items())


Decides = Callable[[Run, Hashable], bool]
"""Whether a mistake of a run may hang on the answer that it has to a condition."""


def run_of(interp: Interpreter, facts: Iterable[Fact]) -> Run:
    passes = Counter(one.site.span for one in interp.tape.passes)
    answers = interp.policy.answers
    usual = {key: interp.usual_answer(key) for key in answers}
    uncertain = {
        key
        for key, answer in answers.items()
        if counters.is_of_counters(key) and answer not in interp.sure_answers.get(key, ())
    }
    log = interp.log
    left_off = log.left_off - log.ended
    kinds = interp.computed, uncertain, interp.looked_up
    return Run(answers, usual, *kinds, frozenset(facts), log.executed, passes, left_off)


def switched(runs: Collection[Run], sources: Collection[Source]) -> set[Fact]:
    """The facts among those of *runs*, all from one entry, that hang on a switch."""
    return {
        fact
        for fact in {fact for run in runs for fact in run.facts if fact.certainty is Certainty.CERTAIN}
        if _hangs_on(fact, _may_be_otherwise, runs, sources)
    }


def of_other_kinds(runs: Collection[Run], sources: Collection[Source]) -> set[Fact]:
    """The facts among those of *runs* that show where a tensor is not what the program asks of it, and only there.

    ``if state.size(0) == 32: state = state.detach()`` is there for states of that size.
    """
    return {
        fact
        for fact in {fact for run in runs for fact in run.facts}
        if _hangs_on(fact, _is_of_another_kind, runs, sources)
    }


def _hangs_on(fact: Fact, decides: Decides, runs: Collection[Run], sources: Collection[Source]) -> bool:
    """Whether another run that executes all the statements of a mistake comes without it, by such answers alone."""
    showing = [run for run in runs if fact in run.facts]
    statements = {statement_at(sources, role.span) for role in fact.roles() if role.name != "loop"}
    others = [run for run in runs if not _has_like(run, fact) and statements <= run.executed]
    return all(any(_is_other_way(one, other, fact, decides) for other in others) for one in showing)


def _has_like(run: Run, fact: Fact) -> bool:
    """Whether a run shows a mistake of the same kind with the same cause, perhaps by another way."""
    return any(type(one) is type(fact) and one.cause == fact.cause for one in run.facts)


def _is_other_way(one: Run, other: Run, fact: Fact, decides: Decides) -> bool:
    """Whether *other* runs the pass of a mistake as often as *one* and differs by answers that *decide* it alone.

    A loop that was left off after its second iteration would run it again.  A mistake that fails in no pass shows once
    those of its loop were run.
    """
    loops = [role.span for role in fact.roles() if role.name == "loop"]
    inside = (span for span in one.passes if any(loop.contains(span) for loop in loops))
    passes = [role.span for role in fact.roles() if role.name == "failed"] or list(inside)
    goes_on = any(role.name == "loop" and role.span in other.left_off for role in fact.roles())
    least = _SECOND if goes_on else math.inf
    is_as_long = all(other.passes.get(span, 0) >= min(one.passes.get(span, 0), least) for span in passes)
    return is_as_long and _differ_by(decides, one, other)


def _differ_by(decides: Decides, one: Run, other: Run) -> bool:
    """Whether two runs differ by such answers alone, which *one* does not have as they usually are."""
    changed = [key for key, answer in one.answers.items() if other.answers.get(key, answer) is not answer]
    return (
        bool(changed)
        and all(decides(one, key) for key in changed)
        and all(one.usual[key] is not one.answers[key] for key in changed)
    )


def _may_be_otherwise(run: Run, key: Hashable) -> bool:
    """Whether the answer to a condition may be another one in each iteration in which a run asks for it."""
    known = key in run.computed or key in run.uncertain
    by_shape = compares_dimensions(key) or _bounds_size(key) or _is_of_another_kind(run, key)
    return known or by_shape or _is_switch(key, run.looked_up)


def _bounds_size(key: Hashable) -> bool:
    """Whether a tensor's size is compared with a number that it may exceed or not: ``if state.size(1) > 3``."""
    match key:
        case ("not", asked):
            return _bounds_size(asked)
        case ("Gt" | "Lt", size, ("int", int())) | ("Gt" | "Lt", ("int", int()), size):
            return is_size(size) and not is_emptiness(key)
    return False


def _is_of_another_kind(run: Run, key: Hashable) -> bool:
    """Whether a tensor is said to be of another size, or type, than the one that it is asked for."""
    return _is_other_size(key, run.answers[key])


_SINGLE = (("int", 0), ("int", 1))


def _is_other_size(key: Hashable, answer: bool) -> bool:
    """Whether a tensor is said to have another size than the one that it is asked for, or no elements.

    ``if state.size(0) == 32: state = state.detach()`` is there for a state of that size; nobody asks whether a batch is
    a single row because most are.
    """
    match key:
        case ("not", asked):
            return _is_other_size(asked, not answer)
        case _ if is_emptiness(key):
            return answer
        case ("~", "is_floating_point", _):
            return not answer  # what has a graph is of floats, or complex
        case ("~", "is_complex", _):
            return answer
        case ("Eq", one, other):
            return not answer and is_size(one) != is_size(other) and one not in _SINGLE and other not in _SINGLE
    return has_elements(key) and not answer


def _is_switch(key: Hashable, looked_up: Container[Hashable]) -> bool:
    """Whether a condition stays as it is for the whole program, and is not about the sizes of what it computes with."""
    while isinstance(key, tuple) and key[:1] == ("not",):
        key = key[1]
    if isinstance(key, tuple) and key[:1] == ("hasattr",):
        return True
    return not varies(key, looked_up) and not _measures(key)


def _measures(key: Hashable) -> bool:
    match key:
        case ("len" | "any", *_):
            return True
        case tuple():
            return is_shape(key) or any(map(_measures, key))
    return False
