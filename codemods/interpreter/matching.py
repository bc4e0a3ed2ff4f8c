"""``match``: whether a value has the shape of a pattern, and the names that the pattern gives to parts of it."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from autofix.codemods.interpreter import attributes, class_lookup, comparisons, mapping_keys, python_classes
from autofix.codemods.interpreter.kinds.kind import kind_of
from autofix.codemods.interpreter.library import objects
from autofix.codemods.interpreter.values import (
    Binding,
    Class,
    Instance,
    Mapping,
    Sequence,
    Symbol,
    TensorRef,
    Value,
    is_constant,
)

if TYPE_CHECKING:
    from autofix.codemods.interpreter.protocol import Interpreter

Bound = dict[str, Value]
_SEQUENCES = ("list", "tuple", "deque")


def matches(interp: Interpreter, subject: Value, pattern: ast.pattern, bound: Bound) -> bool | None:
    """Whether *subject* matches; None where that is not known.  Names go into *bound*, also those of a failed match."""
    subject = interp.settled(subject)
    match pattern:
        case ast.MatchAs(pattern=inner, name=name):
            answer = True if inner is None else matches(interp, subject, inner, bound)
            if name is not None:
                bound[name] = subject
            return answer
        case ast.MatchOr(patterns=patterns):
            answers: list[bool | None] = []
            for one in patterns:
                answers.append(matches(interp, subject, one, bound))
                if answers[-1]:
                    return True
            return None if None in answers else False
        case ast.MatchValue(value=value):
            return _equals(subject, interp.eval(value))
        case ast.MatchSingleton(value=single):
            return None if isinstance(subject, Symbol) else subject is single
        case ast.MatchSequence(patterns=patterns):
            return _matches_items(interp, subject, patterns, bound)
        case ast.MatchMapping():
            return _matches_keys(interp, subject, pattern, bound)
        case ast.MatchClass():
            return _matches_class(interp, subject, pattern, bound)
    return None


def _equals(subject: Value, value: Value) -> bool | None:
    if is_constant(subject) and is_constant(value):
        return bool(subject == value)
    if subject is value:
        return True
    return False if isinstance(subject, (TensorRef, Sequence, Mapping)) and is_constant(value) else None


def _all(answers: list[bool | None]) -> bool | None:
    return False if False in answers else None if None in answers else True


def _unknown_parts(interp: Interpreter, patterns: list[ast.pattern], bound: Bound) -> None:
    """Nothing is known of the parts: neither is it of what the names stand for."""
    for pattern in patterns:
        for part in ast.walk(pattern):
            name = part.rest if isinstance(part, ast.MatchMapping) else getattr(part, "name", None)
            if name is not None:
                bound[name] = interp.fresh_symbol("matched")


def _is_sequence(subject: Value) -> bool:
    """Whether it is an object of a class of the program that is derived from ``tuple``, or another sequence."""
    return isinstance(subject, Instance) and any(class_lookup.is_container(subject.cls, kind) for kind in _SEQUENCES)


def _items_by_methods(interp: Interpreter, subject: Instance) -> Sequence | None:
    """The items of an object that is a sequence by its class, as its own methods give them; None where they do not."""
    if python_classes.is_derived(subject.cls, "collections.abc.Sequence") is not True:
        return None
    length = kind_of(subject).length(interp, subject, comparisons.NOWHERE)
    if not isinstance(length, int):
        return None
    return Sequence("tuple", [Binding(interp.item(subject, at, comparisons.NOWHERE)) for at in range(length)])


def _matches_items(interp: Interpreter, subject: Value, patterns: list[ast.pattern], bound: Bound) -> bool | None:
    if isinstance(subject, Instance) and not class_lookup.is_named_tuple(subject.cls):
        subject = _items_by_methods(interp, subject) or subject
    if not isinstance(subject, Sequence) or subject.more:
        _unknown_parts(interp, patterns, bound)
        return None if isinstance(subject, (Sequence, Symbol)) or _is_sequence(subject) else False
    if subject.kind not in _SEQUENCES:
        return False
    items = [interp.read(slot, subject) for slot in subject.items]
    star = next((at for at, one in enumerate(patterns) if isinstance(one, ast.MatchStar)), None)
    if len(items) < len(patterns) - (star is not None) or (star is None and len(items) > len(patterns)):
        return False
    if star is None:
        pairs = list(zip(patterns, items, strict=True))
    else:
        rest = len(items) - (len(patterns) - star - 1)
        starred = patterns[star]
        assert isinstance(starred, ast.MatchStar)
        if starred.name is not None:
            bound[starred.name] = Sequence("list", subject.items[star:rest])
        pairs = [*zip(patterns[:star], items, strict=False), *zip(patterns[star + 1 :], items[rest:], strict=True)]
    return _all([matches(interp, item, one, bound) for one, item in pairs])


def _matches_keys(interp: Interpreter, subject: Value, pattern: ast.MatchMapping, bound: Bound) -> bool | None:
    if isinstance(subject, Instance) and isinstance(subject.items, Mapping):
        subject = subject.items
    if not isinstance(subject, Mapping):
        _unknown_parts(interp, [pattern], bound)
        return None if isinstance(subject, Symbol) else False
    if pattern.rest is not None:
        bound[pattern.rest] = rest = Mapping(dict(subject.items), more=subject.more)
    else:
        rest = Mapping()
    answers: list[bool | None] = []
    for written, one in zip(pattern.keys, pattern.patterns, strict=True):
        key = mapping_keys.mapping_key(interp, interp.eval(written))
        slot = subject.items.get(key)
        rest.items.pop(key, None)
        if slot is not None:
            answers.append(matches(interp, interp.read(slot, subject), one, bound))
        else:
            _unknown_parts(interp, [one], bound)
            answers.append(None if subject.more else False)
    return _all(answers)


def _matches_class(interp: Interpreter, subject: Value, pattern: ast.MatchClass, bound: Bound) -> bool | None:
    cls = interp.eval(pattern.cls)
    answer = objects.is_instance(interp, subject, cls)
    inside = [*pattern.patterns, *pattern.kwd_patterns]
    if answer is False or not inside:
        return answer if isinstance(answer, bool) else None
    names = _positional(interp, cls)
    if names is None and len(pattern.patterns) == 1 and not isinstance(subject, (Instance, Symbol)):
        return matches(interp, subject, pattern.patterns[0], bound)  # `case str(name)`
    if len(names or ()) < len(pattern.patterns) or not isinstance(subject, (Instance, Sequence, TensorRef)):
        _unknown_parts(interp, inside, bound)
        return None
    wanted = [*(names or ())[: len(pattern.patterns)], *pattern.kwd_attrs]
    answers = [
        matches(interp, attributes.get(interp, subject, name, pattern.cls), one, bound)
        for name, one in zip(wanted, inside, strict=True)
    ]
    return _all([answer if isinstance(answer, bool) else None, *answers])


def _positional(interp: Interpreter, cls: Value) -> list[str] | None:
    """The attributes that positional patterns of a class stand for: ``__match_args__``, or a dataclass's fields."""
    if not isinstance(cls, Class):
        return None
    given = cls.names.get("__match_args__")
    if given is not None and isinstance(given.value, Sequence):
        return [str(interp.read(slot, given.value)) for slot in given.value.items]
    return [one.name for one in class_lookup.fields_of(cls)]
