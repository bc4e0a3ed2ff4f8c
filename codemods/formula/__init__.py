"""A NumPy formula between tensors that go in and the tensor that comes out, as the same formula in torch.

``reader`` is the door: a fact in, edits out.  The program's functions are read again and again, each statement in its
order, until it is clear which arrays must become tensors: those on the ways from the tensors that lost their graphs to
a tensor that is made of the result, and whatever meets them on the ways.  One operation there which is not certainly
the same in torch, and nothing is changed.  What else is done with such an array, to show it or to store it, is done
with the tensor's own array again.

``values`` are what is known of a value, ``marks`` what is noted on the way, ``twins`` the tables of what is the same in
torch; the other modules say how statements, expressions, names and calls are read.
"""
