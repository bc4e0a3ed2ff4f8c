"""The report of a campaign as one page for the browser: opens from disk, asks no network and runs no script."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from autofix.campaign.task import Outcome
from autofix.escaping import escaped
from autofix.report.frame import rendered

if TYPE_CHECKING:
    from autofix.report.schema import CampaignDocument

MOST = 5000
"""Repositories that the page lists; the JSON report has all."""
MOST_FINDINGS = 50
"""Findings that are listed for one repository."""


def render(report: CampaignDocument, outcomes: Sequence[Outcome]) -> str:
    """Return the page as HTML."""
    told = [one for one in report["repositories"] if one["findings"] or one["status"] != "done" or one["command"]]
    return rendered(
        "campaign.html",
        {"escaped": escaped, "mebibytes": mebibytes},
        report=report,
        told=told[:MOST],
        more=len(told) - MOST,
        clean=len(report["repositories"]) - len(told),
        places={outcome.name: places(outcome) for outcome in outcomes},
        most=MOST_FINDINGS,
    )


def mebibytes(size: int) -> str:
    return f"{size / 2**20:.0f}"


def places(outcome: Outcome) -> list[tuple[str, str, str]]:
    """Place, code and message of each mistake."""
    return [(_cause(one), one["code"], escaped(one["message"])) for one in outcome.findings]


def _cause(finding: dict[str, Any]) -> str:
    for role in finding["roles"]:
        if role["cause"]:
            return escaped(f"{role['file']}:{role['start']['line']}")
    return ""
