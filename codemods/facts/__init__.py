"""Facts: the mistakes on autograd's tape, as plain data.

A fact names its kind and a source span for every role in it.  Both witnesses, the one that reads the source and the one
that watches a run, speak in these terms, and a codemod never learns which of them spoke.  ``base`` holds the base of
all facts, ``parts`` the parts that checks and rules look into; the other modules hold the kinds, by the mistake that
they are about.

Positions follow LibCST: lines count from 1, columns count code points from 0, and the end is exclusive.
"""
