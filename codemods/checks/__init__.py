"""One module for each kind of mistake: the facts that a path shows of it, and what another path answers them with."""
