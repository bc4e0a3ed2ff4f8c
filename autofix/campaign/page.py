"""The report of a campaign as one page for the browser: opens from disk, asks no network and runs no script."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from autofix import __version__
from autofix.campaign.task import Outcome
from autofix.escaping import escaped

if TYPE_CHECKING:
    from autofix.report.schema import CampaignDocument

MOST = 5000
"""Repositories that the page lists; the JSON report has all."""
MOST_FINDINGS = 50
"""Findings that are listed for one repository."""


def render(report: CampaignDocument, outcomes: Sequence[Outcome]) -> str:
    """Return the page as HTML.  Whatever comes from checkouts is escaped by the template engine."""
    environment = Environment(
        loader=PackageLoader("autofix.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"escaped": escaped, "mebibytes": mebibytes}
    loader = environment.loader
    assert loader is not None
    told = [one for one in report["repositories"] if one["findings"] or one["status"] != "done" or one["command"]]
    return environment.get_template(
        "campaign.html"
    ).render(
        style=Markup(loader.get_source(environment, "page.css")[0]),  # ours, and no place for escapes
        version=__version__,
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
    """Where each mistake is, its code, and its message."""
    return [(_cause(one), one["code"], escaped(one["message"])) for one in outcome.findings]


def _cause(finding: dict[str, Any]) -> str:
    for role in finding["roles"]:
        if role["cause"]:
            return escaped(f"{role['file']}:{role['start']['line']}")
    return ""
