"""Conditions: whether a value is true on the path of a run."""

from __future__ import annotations

import ast
import operator
from collections.abc import Hashable
from contextlib import suppress

from autofix.codemods.interpreter import asked_again, counters, finite, usual_values
from autofix.codemods.interpreter.kinds.kind import kind_of
from autofix.codemods.interpreter.policy import chooses_by_name, is_emptiness
from autofix.codemods.interpreter.protocol import Interpreter
from autofix.codemods.interpreter.values import (
    Sequence,
    Symbol,
    TensorImpl,
    TensorRef,
    Value,
)

_COMPARED = {"Eq": operator.eq, "Lt": operator.lt, "Gt": operator.gt}
_LONG = 1_000
"""Items of a container whose length is compared with a bound that is not known."""


def _mentions(key: Hashable, identities: set[int]) -> bool:
    """Whether a value was computed from one of these tensors, or from what they say of themselves."""
    if isinstance(key, tuple):
        return any(_mentions(part, identities) for part in key)
    return isinstance(key, int) and key in identities


_NO_TEXT = ("str", "")
"""The key of the text that stands for a file or a name that was not given."""


class Decisions(Interpreter):
    """The answers to conditions: by what is known, else by the policy of the path."""

    def truth(self, value: Value, *, likely: bool = True, optional: bool = False) -> bool:
        """Whether *value* is true on this path (see :meth:`BranchPolicy.decide`)."""
        value = self.settled(value)
        return kind_of(value).truth(self, value, likely=likely, optional=optional)

    def decide(self, value: Symbol | TensorRef, *, likely: bool, optional: bool) -> bool:
        """Whether a value is true on this path that only the path can tell."""
        if isinstance(value, TensorRef):
            key = self.truth_key(value)
            return self.policy.decide(key, self._by_default(key, likely, optional), optional=optional)
        value = asked_again.same(self, value)
        answer = self._answer(value, likely, optional)
        self.goes_by_shape |= bool(self.measured) and _mentions(value.key, self.measured)
        self.note_length(value.key, answer)
        self._note_class(value.key, answer)
        counters.note(self, value.key, answer)
        return answer

    def truth_key(self, tensor: TensorRef) -> Hashable:
        """The key of a tensor's one element as a condition: another one once the tensor was changed."""
        cell = tensor.cell
        key = ("~", "truth", self.identity(cell), cell.storage.version)
        if cell.node is not None or cell.detachment is not None or cell.judged or cell.constant:
            self.computed.add(key)
        return key

    def consequence(self, condition: Symbol | TensorRef) -> bool | None:
        """Whether a condition holds for which a pass was run, or not run, on this path; None for any other."""
        if isinstance(condition, TensorRef):
            key = self.truth_key(condition)
        else:
            key = asked_again.same(self, condition).key
        wanted = True
        while isinstance(key, tuple) and len(key) == 2 and key[0] == "not":
            key, wanted = key[1], not wanted
        answer = self.policy.consequence(key)
        return None if answer is None else answer is wanted

    def _note_class(self, key: Hashable, answer: bool) -> None:
        """A value was asked for its class: note that it has one, other than that of None."""
        match key:
            case ("isinstance", of, wanted) | ("Eq", ("type", of), wanted) if answer and "NoneType" not in str(wanted):
                self.classified.add(of)

    def note_length(self, key: Hashable, answer: bool) -> None:
        """A container whose items are not all known was asked for its length: note how many it holds at least."""
        while isinstance(key, tuple) and len(key) == 2 and key[0] == "not":
            key, answer = key[1], not answer
        match key, answer:
            case ("Gt", ("len", which, *_), bound), True:
                more = 1
            case ("Lt", bound, ("len", which, *_)), True:
                more = 1
            case ("Lt", ("len", which, *_), bound), False:
                more = 0
            case ("Gt", bound, ("len", which, *_)), False:
                more = 0
            case _:
                return
        container = self.identified(which)
        if isinstance(container, Sequence):
            known = bound[1] if isinstance(bound, tuple) and bound[:1] == ("int",) else _LONG
            container.least = known + more if isinstance(known, int) else _LONG

    def _answer(self, value: Symbol, likely: bool, optional: bool) -> bool:
        """Whether an unknown value is true on this path."""
        if value.low is not None and value.low > 0:
            return True
        key = value.key
        if isinstance(key, tuple) and len(key) == 4 and key[0] == "remainder":
            # `if t % k` holds where `t % k == 0` does not.
            _, base, offset, modulus = key
            nought = ("residue", base, modulus, -offset % modulus)
            return not self.policy.decide(nought, not likely, optional=optional, prefer_false=True)
        if value.low is not None or value.high is not None:
            self.sure_answers[key] = {not answer for answer in counters.sure_answers(ast.Eq, value, 0)}
        denies = False
        if isinstance(key, tuple) and len(key) == 2 and key[0] == "not":
            denies, key, likely = True, key[1], not likely
        usual = self.usual_answer(key) if self.policy.path.by_default else None
        supposed = self._by_default(key, likely, optional) if usual is None else usual
        answer = self.policy.decide(key, supposed, optional=optional, prefer_false=denies)
        if self._gives_option(key, likely, answer):
            self.policy.gives_options = True
        return answer is not denies

    def _gives_option(self, key: Hashable, likely: bool, answer: bool) -> bool:
        """Whether an answer takes an option that is usually left out (``--keep-graph``), or another text than usual."""
        match key:
            case ("in" | "looked up", *_) | ("attr", ("options of", _), _):
                return self.usual_answer(key) is (not answer)
        return answer is not likely and not chooses_by_name(key) and self.usual_answer(key) is likely

    def usual_answer(self, key: Hashable) -> bool | None:
        """The answer to the condition *key* by the defaults of options; None where they do not say."""
        match key:
            case ("not", condition):
                usual = self.usual_answer(condition)
                return None if usual is None else not usual
            case ("Eq" | "Lt" | "Gt" as name, one, other):
                left, right = self.usual_value(one), self.usual_value(other)
                if left is None or right is None:
                    return None
                with suppress(TypeError):
                    return bool(_COMPARED[name](left, right))
                return None
            case ("in", item, container):
                return usual_values.is_in(item, container, self._default_of)
        usual = self.usual_value(key)
        return None if usual is None else bool(usual)

    def usual_value(self, key: Hashable) -> Value:
        """The constant that a value is by a default, or is in any case; None for others."""
        usual = usual_values.usual_of(key, self._default_of)
        return usual if isinstance(usual, (str, int, float)) else None

    def _default_of(self, key: Hashable) -> Value:
        """The default of an option, or the usual value of a number; None for others."""
        known = self.defaults.get(key)
        return self._unknowns[key].usual if known is None and key in self._unknowns else known

    def _by_default(self, key: Hashable, likely: bool, optional: bool) -> bool:
        """Whether a condition is likely to hold: numbers are finite, tensors not empty, options have defaults.

        An *optional* block that a flag switches on is executed all the same; of two, that of the default.
        """
        usual = finite.usual_answer(key)
        if usual is not None:
            return usual
        if is_emptiness(key):
            return False
        match key:
            case ("~", "truth", int() as identity, _):
                asked = self.identified(identity)
                return asked.usual if isinstance(asked, TensorImpl) and asked.usual is not None else likely
            case ("overridden", *_):
                return self.overridden.get(key, likely)
            case ("in", item, container):
                found = usual_values.is_in(item, container, self._still_usual)
                return likely if found is None else found
            case ("looked up", *_):
                known = usual_values.usual_of(key, self._still_usual)
                return likely if known is None else bool(known)
            case ("Eq", one, other):
                for option, against in ((one, other), (other, one)):
                    text = usual_values.usual_of(option, self._still_usual)
                    is_text = isinstance(text, str) and isinstance(against, tuple) and against[:1] == ("str",)
                    if is_text and not self.policy.denied(("Eq", option, ("str", text))):
                        return against == ("str", text)
                return likely and _NO_TEXT not in (one, other)
            case ("attr", *_) if not optional:
                flag = self._still_usual(key)
                return likely if flag is None else bool(flag)
        return likely

    def _still_usual(self, key: Hashable) -> Value:
        """The default of an option, or the usual value of a number, that the path has not ruled out."""
        usual = self._default_of(key)
        return None if usual is not None and self.policy.denied(("Eq", key, self.key(usual))) else usual
