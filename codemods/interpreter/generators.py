"""Generators: code that runs when somebody asks for its next item, between the statements of who asks.

What a generator computes belongs to the iteration that asked for it, so it must not be run ahead.  Each one runs in a
thread of its own, of which never more than one moves: who resumes a generator waits until it yields.
"""

from __future__ import annotations

import ast
import itertools
import math
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from autofix.codemods.interpreter.errors import Raised
from autofix.codemods.interpreter.values import Binding, Value
from autofix.codemods.source.sources import Site

if TYPE_CHECKING:
    from autofix.codemods.autograd.graph import Loops
    from autofix.codemods.interpreter.protocol import Interpreter
    from autofix.codemods.interpreter.state.environment import Frame

LAZY = frozenset(
    "enumerate zip iter next map filter islice chain from_iterable cycle tqdm trange accumulate takewhile".split()
)
"""Functions that take the items of what they are given one by one, when they are asked for one themselves."""

DRAINED = 64
"""Items that are asked for where somebody wants all of them."""


class Exhausted(Exception):
    """A generator has come to its end."""


class Abandoned(BaseException):
    """Nobody will ask for another item: ends the generator's thread."""


class Closed(BaseException):
    """The program has closed the generator: the blocks that it waits in end, as by ``GeneratorExit``."""


def _closed_gate() -> threading.Lock:
    """A lock that is held: who acquires it waits until another thread releases it, once for each."""
    gate = threading.Lock()
    gate.acquire()
    return gate


def takes_out(node: ast.AST) -> bool:
    """Whether code takes items out of a container: what is left then depends on how often it runs."""
    return any(
        isinstance(part, ast.Attribute) and part.attr in ("pop", "popleft", "popitem") for part in ast.walk(node)
    )


class Generator:
    """A generator of the program: made by a call, run by :meth:`resume`."""

    def __init__(self, interp: Interpreter, body: Callable[[], object], frame: Frame, called: Site) -> None:
        self._interp = interp
        self._body = body
        self._frame = frame
        self._called = called
        self._thread: threading.Thread | None = None
        self._resumed = _closed_gate()
        self._answered = _closed_gate()
        self._yielded: Binding | None = None
        self._sent: Value = None
        self._thrown: Value = None
        self._error: BaseException | None = None
        self._abandoned = False
        self._closing = False
        self._state = (interp.scope, interp.source, interp.statement)
        self._loops = 0
        """Number of the asking code's loops around the generator's own."""
        self._own: Loops = ()
        self._decorated = frame.function is not None and frame.function.grad_mode is not None
        self._grad: tuple[bool, Site | None] | None = None
        """Grad mode, and who set it, where the generator waits: a decorator restores it around each item."""
        self.finished = False
        self.running = False
        frame.generator = self
        interp.generators.append(self)

    def resume(self, sent: Value = None, error: Value = None) -> Binding:
        """The next item; *sent* is what the ``yield`` before it is worth, *error* what it raises.

        Raises :class:`Exhausted` at the end, and what the generator raises itself.
        """
        if self.finished or self.running:
            raise Exhausted
        interp = self._interp
        here = interp.scope, interp.source, interp.statement, interp.stack, interp.frames, interp.loops
        interp.scope, interp.source, interp.statement = self._state
        interp.stack = (*interp.stack, self._called)
        interp.frames = [*interp.frames, self._frame]
        self._loops = len(interp.loops)
        interp.loops = (*interp.loops, *self._own)
        self._sent, self._thrown, self._yielded, self.running = sent, error, None, True
        outside = interp.grad, interp.guard
        if self._grad is not None:
            interp.grad, interp.guard = self._grad
        self._move()
        if self._decorated:
            self._grad = interp.grad, interp.guard
            interp.grad, interp.guard = outside
        self.running = False
        self._state = interp.scope, interp.source, interp.statement
        interp.scope, interp.source, interp.statement, interp.stack, interp.frames, interp.loops = here
        if self._error is not None:
            raise self._error
        return self._handed_out()

    def _handed_out(self) -> Binding:
        if self._yielded is None:
            raise Exhausted
        return self._yielded

    def _move(self) -> None:
        """Let the generator's code run until it yields or ends."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, daemon=True)
            self._thread.start()
        else:
            self._resumed.release()
        self._answered.acquire()

    @property
    def takes_out(self) -> bool:
        """Whether its code takes items out of a container."""
        function = self._frame.function
        return function is not None and function.source.remembered(function.node, takes_out)

    @property
    def returned(self) -> Value:
        """The value that the generator returned, at its end."""
        return self._frame.result

    def turn(self) -> int:
        """After how many items it comes to the first of a known container again, which it goes over again and again."""
        known = [self._interp.unrolling.lengths.get(point.instance, 0) for point in self._own]
        if not known or known[0] or not known[-1]:
            return 0
        whole = itertools.takewhile(bool, reversed(known))
        return math.prod(whole)

    def give(self, slot: Binding) -> Value:
        """Called by the generator's own code: hand an item out and wait; returns what is sent in."""
        self._own = self._interp.loops[self._loops :]
        self._yielded = slot
        self._answered.release()
        self._resumed.acquire()
        if self._abandoned:
            raise Abandoned
        if self._closing:
            raise Closed
        if self._thrown is not None:
            raise Raised(self._thrown)
        return self._sent

    def close(self) -> None:
        """``generator.close()``: what stands in a ``finally`` around the ``yield`` is run."""
        if self._thread is None:
            self.finished = True
        self._closing = True
        with suppress(Exhausted):
            self.resume()
        self.abandon()

    def abandon(self) -> None:
        """End the thread, and run nothing more of it."""
        if self._thread is not None and not self.finished:
            self._abandoned = True
            self._resumed.release()
            self._thread.join()
        self.finished = True

    def _run(self) -> None:
        try:
            self._body()
        except (Abandoned, Closed):
            pass
        except BaseException as error:
            self._error = error
        self.finished = True
        self._answered.release()


def drained(generator: Generator) -> tuple[list[Binding], bool]:
    """All items of a generator, at most ``DRAINED``, and whether there may be more."""
    items: list[Binding] = []
    try:
        while len(items) < DRAINED:
            items.append(generator.resume())
    except Exhausted:
        return items, False
    return items, True
