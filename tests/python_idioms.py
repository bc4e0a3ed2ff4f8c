# ruff: noqa: E501 - each is as short as it is told
"""Pieces of Python that end with ``r`` being something: what the tape makes of it is held against what Python makes of it."""

from __future__ import annotations

KNOWN = r"""
r = "a-b".split("-")[1]

r = "abc"[::-1]

r = "x" * 3

r = "a" in "abc"

r = len("abc")

r = "%d-%s" % (1, "a")

r = "{0}-{1}".format(1, 2)

r = "{a}".format(a=1)

r = f"{1 + 1:02d}"

r = f"{'a'!r}"

r = "a.b.c".rpartition(".")[2]

r = "a.b".partition(".")[0]

r = "abc".find("c")

r = "abc".index("b")

r = "aab".count("a")

r = "abc".isdigit()

r = "12".isdigit()

r = "Ab".swapcase()

r = "a b".title()

r = "a,b".split(",", 1)

r = "ab".zfill(4)

r = "a\nb".splitlines()

r = "abc".startswith(("a", "b"))

r = str(12)

r = int("12")

r = float("1.5")

r = int(2.7)

r = round(2.5)

r = round(2.567, 1)

r = abs(-3)

r = divmod(7, 2)

r = pow(2, 5)

r = min(3, 1, 2)

r = max([3, 1, 2])

r = min([3, 1], default=0)

r = max([], default=5)

r = sum([1, 2, 3])

r = sum([1, 2], 10)

r = sum(i for i in range(3))

r = any([0, 1])

r = all([1, 1])

r = all(x > 0 for x in (1, 2))

r = sorted([3, 1, 2])

r = sorted([3, 1, 2], reverse=True)

r = sorted(["bb", "a"], key=len)

r = sorted({"b": 1, "a": 2})

r = list(reversed([1, 2]))

r = [1, 2] + [3]

r = [0] * 3

r = [1, 2, 3][1:]

r = [1, 2, 3][-1]

r = [1, 2, 3][::2]

r = [1, 2].index(2)

r = [1, 2, 2].count(2)

l = [1, 2, 3]; l.remove(2); r = l

l = [1, 2, 3]; l.pop(0); r = l

l = [1, 2, 3]; del l[0]; r = l

l = [1, 2, 3]; del l[:]; r = l

l = [1, 2, 3]; l[1:2] = [7, 8]; r = l

l = [1]; l.insert(0, 5); r = l

l = [1]; l.extend((2, 3)); r = l

l = [1]; l += [2]; r = l

l = [3, 1]; l.sort(); r = l

l = [3, 1]; l.reverse(); r = l

l = [1, 2]; m = l.copy(); m.append(3); r = len(l)

l = [1, 2]; m = l[:]; m.append(3); r = len(l)

a, *b = [1, 2, 3]; r = b

*a, b = [1, 2, 3]; r = a

a, (b, c) = 1, (2, 3); r = c

(a, b), c = (1, 2), 3; r = b

a = b = 3; r = a + b

a, b = 1, 2; a, b = b, a; r = a

r = [x * 2 for x in range(3)]

r = [(x, y) for x in range(2) for y in "ab"]

r = {x: x * x for x in range(3)}

r = {x for x in (1, 2, 2)} == {1, 2}

r = list(map(lambda v: v + 1, [1, 2]))

r = list(filter(None, [0, 1, 2]))

r = list(filter(lambda v: v > 1, [1, 2]))

r = list(zip([1, 2], "ab"))

r = list(zip(*[(1, 2), (3, 4)]))

r = dict(zip("ab", [1, 2]))

r = list(enumerate("ab", 1))

r = dict(a=1, b=2)

r = dict([("a", 1)])

r = {**{"a": 1}, "b": 2}

r = {"a": 1} | {"b": 2}

d = {"a": 1}; d |= {"b": 2}; r = d

d = {"a": 1}; r = d.get("b", 7)

d = {"a": 1}; r = d.pop("a")

d = {"a": 1}; r = d.setdefault("b", 5)

d = {"a": 1}; d.update(b=2); r = d

d = {"a": 1}; r = list(d.items())

d = {"a": 1}; r = [*d]

d = {"a": 1}; r = "a" in d

d = {"a": 1}; r = len(d)

d = {"a": {"b": 2}}; r = d["a"]["b"]

d = dict.fromkeys("ab", 0); r = d

d = {"a": 1, "b": 2}; del d["a"]; r = d

d = {"a": 2, "b": 1}; r = sorted(d.items(), key=lambda kv: kv[1])

d = {"a": 2, "b": 1}; r = max(d.values())

d = {1: "a"}; r = next(iter(d))

d = {1: "a", 2: "b"}; r = next(iter(d.values()))

r = {1, 2} | {3} == {1, 2, 3}

r = {1, 2} & {2} == {2}

r = {1, 2} - {2} == {1}

r = 2 in {1, 2}

r = set("ab") == {"a", "b"}

s = set(); s.add(1); r = len(s)

s = {1, 2}; s.discard(1); r = len(s)

r = frozenset([1]) == {1}

r = 3 if 1 else 4

r = 1 and 2

r = 0 or 5

r = not 0

r = None or 4

r = 1 < 2 < 3

r = 1 < 2 > 5

r = 5 // 2

r = 5 % 3

r = 2 ** 3

r = 7 / 2

r = -3 // 2

r = 1 << 3

r = 6 & 3

r = 6 | 1

r = 6 ^ 3

r = ~5

r = True + 1

r = isinstance(1, int)

r = isinstance("a", (int, str))

r = type(1) is int

r = type("a").__name__

r = hasattr("a", "upper")

if (n := 5) > 3: r = n

r = [y := 1, y + 1]

while True:
    r = 4
    break

for i in range(3):
    if i == 1: continue
    r = i

for i in range(2): pass
else: r = "else"

i = 0
while i < 3: i += 1
r = i

try:
    raise ValueError
except ValueError:
    r = 1

try:
    q = 1
finally:
    q = 2
r = q

try:
    x = 1
except Exception:
    r = 0
else:
    r = 5

def f(a, b=2, *c, d=4, **e): return (a, b, c, d, e)
r = f(1)

def f(a, b=2, *c, d=4, **e): return (a, b, c, d, e)
r = f(1, 3, 5, d=6, z=7)

def f(a, /, b, *, c): return a + b + c
r = f(1, 2, c=3)

def f(*args): return len(args)
r = f(*[1, 2], 3)

def f(**kw): return kw
r = f(**{"a": 1}, b=2)

def f(x, acc=[]):
    acc.append(x)
    return acc
f(1); r = f(2)

def outer():
    n = 0
    def inner():
        nonlocal n
        n += 1
        return n
    inner()
    return inner()
r = outer()

g = 1
def f():
    global g
    g += 1
f(); r = g

def gen():
    yield 1
    yield 2
r = list(gen())

def gen():
    x = yield 1
    yield x
it = gen(); next(it); r = it.send(5)

def gen():
    yield from [1, 2]
    return 3
r = [*gen()]

def gen():
    r = yield from sub()
    yield r
def sub():
    yield 1
    return 9
r = list(gen())

r = next((x for x in [1, 2] if x > 1), None)

r = next(iter([]), 7)

r = (lambda a, b=1: a + b)(2)

def fact(n): return 1 if n < 2 else n * fact(n - 1)
r = fact(2)

class A:
    x = 1
    def __init__(self, y): self.y = y
    def f(self): return self.x + self.y
r = A(2).f()

class A:
    @property
    def p(self): return 4
r = A().p

class A:
    @staticmethod
    def f(): return 1
    @classmethod
    def g(cls): return cls.__name__
r = (A.f(), A.g())

class A:
    def __call__(self, x): return x + 1
r = A()(1)

class A:
    def __getitem__(self, i): return i * 2
    def __len__(self): return 3
r = (A()[2], len(A()))

class A:
    def __add__(self, o): return 7
    def __mul__(self, o): return 8
    def __matmul__(self, o): return 9
r = (A() + 1, A() * 2, A() @ 3)

class A:
    def __enter__(self): return 5
    def __exit__(self, *a): pass
with A() as v: r = v

class A:
    def __iter__(self): return iter([1, 2])
r = [x for x in A()]

class A:
    def __contains__(self, x): return x == 1
r = 1 in A()

class A:
    def __bool__(self): return False
r = 1 if A() else 2

class A: pass
a = A(); setattr(a, "k", 3); r = getattr(a, "k")

class A: pass
r = getattr(A(), "k", 9)

class A: pass
a = A(); a.x = 1; r = hasattr(a, "x")

class A: pass
a = A(); a.x = 1; del a.x; r = hasattr(a, "x")

class A: pass
a = A(); a.x = 1; r = vars(a)

class A: pass
a = A(); a.__dict__.update(x=3); r = a.x

class A:
    def f(self): return 1
class B(A):
    def f(self): return super().f() + 1
r = B().f()

class A:
    def f(self): return "a"
class B(A): pass
class C(A):
    def f(self): return "c" + super().f()
class D(B, C): pass
r = D().f()

class A:
    n = 0
    def __init__(self): type(self).n += 1
A(); A(); r = A.n

class A:
    n = 0
    def __init__(self): A.n += 1
A(); A(); r = A.n

class A:
    items = []
    def add(self, x): self.items.append(x)
A().add(1); A().add(2); r = A.items

class A:
    def __new__(cls): return object.__new__(cls)
    def __init__(self): self.x = 2
r = A().x

class A:
    def __set_name__(self, o, n): self.n = n
    def __get__(self, o, t): return self.n
class B: foo = A()
r = B().foo

class A:
    def __set__(self, o, v): o.__dict__["q"] = v * 2
    def __get__(self, o, t): return o.__dict__["q"]
class B: foo = A()
b = B(); b.foo = 4; r = b.foo

class A:
    @property
    def p(self): return self._p
    @p.setter
    def p(self, v): self._p = v + 1
a = A(); a.p = 1; r = a.p

class A:
    def __init_subclass__(cls, k=0): cls.k = k
class B(A, k=4): pass
r = B.k

import functools
r = functools.reduce(lambda a, b: a + b, [1, 2, 3])

from functools import partial
r = partial(lambda a, b: a - b, 5)(2)

from functools import partial
r = partial(lambda a, b: a - b, b=5)(7)

import functools
@functools.wraps(len)
def f(x): return 3
r = f(1)

import functools
@functools.lru_cache(None)
def f(x): return x + 1
r = f(1)

import functools
class A:
    @functools.cached_property
    def p(self): return 6
r = A().p

import itertools
r = list(itertools.chain([1], [2]))

import itertools
r = list(itertools.chain.from_iterable([[1], [2]]))

import itertools
r = list(itertools.product([1, 2], "a"))

import itertools
r = list(itertools.combinations([1, 2, 3], 2))

import itertools
r = list(itertools.permutations([1, 2]))

import itertools
r = list(itertools.repeat(1, 2))

import itertools
r = list(itertools.zip_longest([1, 2], [3]))

import itertools
r = list(itertools.pairwise([1, 2, 3]))

import itertools
it = itertools.cycle([1, 2]); next(it); next(it); r = next(it)

import operator
r = operator.itemgetter(1)([1, 2])

import operator
r = operator.add(1, 2)

import operator
r = operator.methodcaller("upper")("a")

from collections import deque
d = deque([1, 2, 3], maxlen=2); r = list(d)

from collections import deque
d = deque([1, 2]); d.appendleft(0); d.rotate(1); r = list(d)

from collections import deque
d = deque([1, 2]); r = d.popleft()

from collections import defaultdict
d = defaultdict(list); d["a"].append(1); r = d["a"]

from collections import defaultdict
d = defaultdict(int); d["a"] += 1; r = d["a"]

from collections import defaultdict
d = defaultdict(lambda: 5); r = d["x"]

from collections import OrderedDict
d = OrderedDict(a=1); r = d["a"]

from collections import OrderedDict
d = OrderedDict(a=1, b=2); d.move_to_end("a"); r = list(d)

from collections import Counter
c = Counter("aab"); r = c["a"]

from collections import namedtuple
P = namedtuple("P", "x y"); p = P(1, 2); r = p.y

from typing import NamedTuple
class P(NamedTuple):
    x: int
    y: int = 3
r = P(1).y

from typing import NamedTuple
class P(NamedTuple):
    x: int
    y: int = 3
r = P(1)._replace(x=4).x

from dataclasses import dataclass, field
@dataclass
class A:
    x: int
    y: list = field(default_factory=list)
r = A(1).y

from dataclasses import dataclass, field
@dataclass
class A:
    x: int
    def __post_init__(self): self.z = self.x + 1
r = A(1).z

from dataclasses import dataclass, replace
@dataclass(frozen=True)
class A:
    x: int
    y: int = 2
r = replace(A(1), y=5).y

from dataclasses import dataclass, asdict
@dataclass
class A:
    x: int
r = asdict(A(1))

from dataclasses import dataclass, astuple
@dataclass
class A:
    x: int
    y: int
r = astuple(A(1, 2))

from dataclasses import dataclass, fields
@dataclass
class A:
    x: int
r = [f.name for f in fields(A)]

from dataclasses import dataclass
@dataclass
class A:
    x: int
@dataclass
class B(A):
    y: int
r = B(1, 2).y

from dataclasses import dataclass, field
@dataclass
class A:
    x: int = field(default=4, repr=False)
r = A().x

from dataclasses import dataclass, KW_ONLY
@dataclass
class A:
    x: int
    _: KW_ONLY
    y: int = 1
r = A(1, y=2).y

from enum import Enum
class C(Enum):
    A = 1
    B = 2
r = C.A.value

from enum import Enum
class C(Enum):
    A = 1
    B = 2
r = C["B"].name

from enum import Enum
class C(Enum):
    A = 1
    B = 2
r = C(2) is C.B

from enum import Enum, auto
class C(Enum):
    A = auto()
    B = auto()
r = C.A == C.B

from enum import Enum
class C(Enum):
    A = 1
    B = 2
r = [c.name for c in C]

from enum import Enum
class C(str, Enum):
    A = "a"
r = C.A == "a"

from enum import IntEnum
class C(IntEnum):
    A = 1
    B = 2
r = C.A < C.B

from types import SimpleNamespace
n = SimpleNamespace(a=1); n.b = 2; r = n.b

from contextlib import contextmanager
@contextmanager
def c():
    yield 3
with c() as v: r = v

from contextlib import ExitStack
l = []
with ExitStack() as s:
    s.callback(l.append, 1)
r = l

match 3:
    case 1: r = "a"
    case 3: r = "b"

match (1, 2):
    case (1, x): r = x

match {"a": 1}:
    case {"a": v}: r = v

match [1, 2, 3]:
    case [a, *b]: r = b

match 5:
    case int(x) if x > 3: r = x

import math
r = math.floor(2.5)

import math
r = math.ceil(2.5)

import math
r = math.sqrt(4)

import math
r = math.pi > 3

import math
r = math.prod([2, 3])

import math
r = math.inf > 1

import copy
l = [[1]]; m = copy.deepcopy(l); m[0].append(2); r = l

import copy
l = [[1]]; m = copy.copy(l); m[0].append(2); r = l

import json
r = json.loads('{"a": [1]}')["a"]

import os
r = os.path.join("a", "b")

import random
r = len([random.random() for _ in range(3)])

import weakref
class A: x = 3
a = A(); r = weakref.ref(a)().x

from abc import ABC, abstractmethod
class A(ABC):
    @abstractmethod
    def f(self): ...
class B(A):
    def f(self): return 2
r = B().f()

from typing import Protocol
class P(Protocol):
    def f(self) -> int: ...
class B:
    def f(self): return 2
r = B().f()

from typing import Generic, TypeVar
T = TypeVar("T")
class A(Generic[T]):
    def __init__(self, x): self.x = x
r = A[int](4).x

r = __name__ == "__main__"

x: int = 5; r = x

assert True; r = 1

r = list(range(5, 0, -2))

r = range(5)[2]

r = 3 in range(5)

r = len(range(0, 10, 3))

r = tuple([1, 2])

r = (1,) + (2,)

r = (1, 2) == (1, 2)

r = [1, 2] < [1, 3]

r = (1, "a")[1]

r = chr(65)

r = ord("A")

r = hex(255)

r = bool([])

r = repr(1)

r = id(1) == id(1)

a = [1]; b = a; r = a is b

r = [1, 2, 3, 4][slice(1, 3)]

l = [1, 2, 3, 4]; l[::2] = [7, 8]; r = l

r = " ".join(str(v) for v in [1, 2])

r = sum(len(w) for w in ["a", "bb"])

m = [[0] * 2 for _ in range(2)]; m[0][1] = 5; r = m

d = {}
for w in "aab": d[w] = d.get(w, 0) + 1
r = d

def deco(n):
    def wrap(f):
        def inner(*a, **k): return f(*a, **k) * n
        return inner
    return wrap
@deco(3)
def f(x): return x + 1
r = f(1)

class Deco:
    def __init__(self, f): self.f = f
    def __call__(self, *a): return self.f(*a) + 1
@Deco
def f(x): return x
r = f(1)

def f(): f.calls += 1
f.calls = 0; f(); f(); r = f.calls

class A:
    def m(self): return self
    def k(self): self.v = 3; return self
r = A().m().k().v

import types
class A: pass
a = A(); a.f = types.MethodType(lambda self: 7, a); r = a.f()

class A:
    __slots__ = ("x",)
    def __init__(self): self.x = 2
r = A().x

class A:
    def __init__(self, **kw):
        for k, v in kw.items(): setattr(self, k, v)
r = A(x=5).x

class A:
    def __init__(self, **kw): self.__dict__.update(kw)
r = A(x=5).x

def f(x):
    if x > 1: return "big"
    return "small"
r = [f(v) for v in (1, 2)]

r = {"a": lambda v: v + 1, "b": lambda v: v * 2}["b"](4)

r = [f(3) for f in (abs, str)]

x = 3
r = "odd" if x % 2 else "even"

x = [1, 2, 3]
r = [b - a for a, b in zip(x, x[1:])]

r = list({1: 2}.keys())[0]

r = dict(sorted({"b": 1, "a": 2}.items()))

r = [*range(3)][1]

print_ = [].append; r = 1

r = "a" if None is None else "b"

r = ("a" "b")

r = 1_000

r = 0x10

r = not None

r = (1, *(2, 3))

r = {"k": 1}.items() == {"k": 1}.items()

r = isinstance([], list)
"""

OPEN = r"""
r = max("ab", "b", key=len)

r = [x for x in range(6) if x % 2]

d = {"a": 2, "b": 1}; r = min(d, key=d.get)

r = callable(len)

try:
    {}["a"]
except KeyError:
    r = 3

try:
    r = int("x")
except ValueError:
    r = -1

class A:
    def __init__(self): self.n = 0
    def __iter__(self): return self
    def __next__(self):
        self.n += 1
        if self.n > 2: raise StopIteration
        return self.n
r = list(A())

class A:
    def __eq__(self, o): return True
r = A() == 3

class A:
    def __getattr__(self, n): return n
r = A().foo

class Meta(type):
    def __call__(cls, *a): return 5
class A(metaclass=Meta): pass
r = A()

class A:
    def __class_getitem__(cls, i): return i
r = A[3]

from functools import singledispatch
@singledispatch
def f(x): return 0
@f.register
def _(x: int): return 1
r = f(3)

import itertools
r = list(itertools.islice(itertools.count(5), 2))

import itertools
r = list(itertools.accumulate([1, 2, 3]))

import itertools
r = list(itertools.starmap(pow, [(2, 3)]))

import itertools
r = list(itertools.takewhile(lambda v: v < 2, [1, 2, 1]))

import itertools
r = list(itertools.dropwhile(lambda v: v < 2, [1, 2, 1]))

import itertools
r = [(k, list(g)) for k, g in itertools.groupby([1, 1, 2])]

import itertools
r = list(itertools.compress([1, 2], [0, 1]))

import itertools
a, b = itertools.tee([1, 2]); r = list(b)

import operator
r = operator.attrgetter("x")(type("A", (), {"x": 3}))

from collections import Counter
c = Counter("aab"); r = c.most_common(1)[0][0]

from collections import namedtuple
P = namedtuple("P", ["x", "y"], defaults=[5]); p = P(1); r = p.y

from collections import ChainMap
r = ChainMap({"a": 1}, {"b": 2})["b"]

from dataclasses import dataclass, InitVar
@dataclass
class A:
    x: InitVar[int]
    y: int = 0
    def __post_init__(self, x): self.y = x * 2
r = A(3).y

from contextlib import ExitStack, nullcontext
with ExitStack() as s:
    v = s.enter_context(nullcontext(4))
r = v

from contextlib import suppress
q = 1
with suppress(ValueError):
    raise ValueError
    q = 2
r = q

from contextlib import closing
class A:
    def close(self): self.done = 1
a = A()
with closing(a) as b: pass
r = a.done

r = slice(1, 3).start

A = type("A", (), {"f": lambda self: 8}); r = A().f()

stack = [1, 2]
out = []
while stack: out.append(stack.pop())
r = out

n = 10
steps = 0
while n > 1:
    n //= 2
    steps += 1
r = steps

r = issubclass(bool, int)
"""
"""Those of which the tape may say that it does not know, but nothing wrong."""


def pieces(text: str) -> list[str]:
    return text.strip("\n").split("\n\n")
