"""Merit of patches that stand the proof, to choose the better of two."""

from __future__ import annotations

from autofix.proof.points.base import Point, Verdict
from autofix.proof.prove import DRAWN, Certificate

CLOSE = 0.05
"""Relative difference from the intended gradients up to which one patch is as good as another."""
LEAST = -float("inf")
"""The merit of gradients that nobody can compare."""


def _gradients_agree(certificate: Certificate) -> Point | None:
    """The point that compares gradients with the intended ones, where it passed; else None."""
    return next((one for one in certificate.points if one.number == 5 and one.verdict is Verdict.PASSED), None)


def is_exact(certificate: Certificate) -> bool:
    """Whether the certificate compares gradients and finds all of them exact."""
    gradient = _gradients_agree(certificate)
    if gradient is None:
        return False
    return set(gradient.figures.get("counts", {})) <= {"exact"}


def is_lean(certificate: Certificate) -> bool:
    """Whether a patch neither keeps graphs that the original lets go nor draws other random numbers than it."""
    before, after, reference = certificate.before, certificate.after, certificate.reference
    if before.failure is None or reference is None:
        return True
    if any(p.keeps for p in after.passes) and not any(p.keeps for p in before.passes):
        return False
    ours = {p.step: p.random for p in reference.passes[: before.failure.passes + 1]}
    theirs = {p.step: p.random for p in after.passes}
    return all(theirs.get(step, bits) == bits for step, bits in ours.items())


def merit(certificate: Certificate) -> tuple[int, float, bool]:
    """Merit of a patch: more parameters trained, or gradients nearer to the intended ones; among equals, a lean patch.

    The first counts where no reference tells the intended gradients; the second in steps of ``CLOSE``.
    """
    lean = is_lean(certificate)
    gradient = _gradients_agree(certificate)
    if any(one.detail == DRAWN for one in certificate.points):
        return 0, LEAST, False
    if gradient is None:
        trained = {index for step in certificate.after.updates for index, norm in step.gradients.items() if norm}
        return len(trained), 0.0, lean
    differences = [float(one["difference"]) for one in gradient.figures.get("parameters", {}).values()]
    return 0, -CLOSE * int(max(differences, default=0.0) / CLOSE), lean
