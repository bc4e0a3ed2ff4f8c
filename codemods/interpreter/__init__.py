"""The static witness: executes a program on a symbolic tape, by autograd's own rules, without torch.

``analysis`` is the door: source in, facts out.  ``interpreter`` runs one path through the program (``policy`` chooses
it) and is composed of parts: how statements, expressions, calls and attributes behave.  The parts know each other
through ``protocol`` alone, or by imports that point one way.  ``values`` are what the program computes with.
"""
