"""The static witness: executes a program on a symbolic tape, by autograd's own rules, without torch.

``analysis`` is the door: source in, facts out.  ``interp`` runs one path through the program (``policy`` chooses it),
``graph`` is the tape itself, ``values`` are what the program computes with; the other modules say how statements,
expressions, calls and attributes behave, and ``saves`` what each operation saves.
"""
