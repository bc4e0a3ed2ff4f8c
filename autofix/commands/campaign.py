"""``autofix campaign``: check or repair many checkouts, and write one report."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from autofix.checking import cpu_count
from autofix.commands.waiting import busy, tell
from autofix.exits import Exit
from autofix.report import lines
from autofix.report.output import replace

if TYPE_CHECKING:
    from autofix.campaign.task import Outcome, Task
    from autofix.report.schema import CampaignDocument

REPORT = "campaign"


@dataclass(frozen=True)
class Request:
    """Options of a campaign."""

    output: Path
    jobs: int | None = None
    scheduler: str | None = None
    timeout: float = 600.0
    memory: int = 4 * 2**30
    unsafe: bool = False
    isolated: bool = False
    open_branch: bool = False
    cache: Path | None = None
    python: str | None = None
    retry_failed: bool = False
    quiet: bool = False
    verbose: bool = False


def campaign(repositories: Sequence[str], request: Request) -> Exit:
    """Do the tasks of *repositories* that are not done yet, and report on all of them."""
    require("campaign", "jinja2", "psutil")
    if request.scheduler is not None:
        require("distributed", "distributed")
    from autofix.campaign.sources import tasks
    from autofix.campaign.store import Store
    from autofix.campaign.summary import for_report
    from autofix.campaign.task import Bounds

    bounds = Bounds(
        seconds=request.timeout,
        memory=request.memory,
        unsafe=request.unsafe,
        isolated=request.isolated,
        open_branch=request.open_branch,
        python=request.python or "",
    )
    asked = tasks(repositories, request.cache or request.output / "clones", bounds)
    store = Store(request.output)
    with store.owned():
        found: dict[str, Outcome] = {}
        for task in asked:
            known = store.read(task)
            if known is not None and is_over(known, request):
                found[task.name] = for_report(known)
        left = [task for task in asked if task.name not in found]
        if found and not request.quiet:
            tell(f"autofix: {lines.count(len(found), 'repository', 'repositories')} done before, {len(left)} to do")
        try:
            with nullcontext() if request.verbose else busy(f"{len(left)} repositories"):
                for outcome in conducted(left, request):
                    store.write(outcome)
                    found[outcome.name] = for_report(outcome)
                    if request.verbose:
                        tell(in_a_line(outcome))
        finally:  # of an interrupted campaign, too
            report = written(request.output, [found[task.name] for task in asked if task.name in found], len(asked))
    if not request.quiet:
        print(summed_up(report, request.output))
    is_clean = report["done"] == report["asked"] and not report["rules"]
    return Exit.CLEAN if is_clean else Exit.LEFT


def is_over(known: Outcome, request: Request) -> bool:
    """Whether a repository need not be done again."""
    if known.status != "done":
        return not request.retry_failed
    wants_branch = request.open_branch and known.patch and not (known.branch or known.branch_note)
    return not wants_branch


def require(extra: str, *modules: str) -> None:
    """Raise :class:`click.UsageError` where a library is missing that is not installed with the tool."""
    from importlib.util import find_spec

    for module in modules:
        if find_spec(module) is None:
            raise click.UsageError(f"this needs {module}, which comes with: pip install 'torch-autofix[{extra}]'")


def conducted(left: Sequence[Task], request: Request) -> Iterator[Outcome]:
    """The outcomes as they come, from this machine or from the cluster."""
    if not left:
        return
    if request.scheduler is not None:
        from autofix.campaign.cluster import on_cluster

        yield from on_cluster(left, request.scheduler, tell)
        return
    from autofix.campaign.here import here

    yield from here(left, request.jobs or cpu_count())


def written(folder: Path, outcomes: Sequence[Outcome], asked: int) -> CampaignDocument:
    """Write the report on *outcomes*, as JSON and as a page, and return it."""
    from autofix.campaign import page, summary

    report = summary.document(outcomes, asked)
    replace(folder / f"{REPORT}.json", (json.dumps(report, indent=2) + "\n").encode("ascii"))
    replace(folder / f"{REPORT}.html", page.render(report, outcomes).encode("utf-8", "backslashreplace"))
    return report


def in_a_line(outcome: Outcome) -> str:
    if outcome.status != "done":
        return f"{outcome.source}: {outcome.status}: {outcome.reason}"
    said = lines.count(len(outcome.findings), "mistake")
    if outcome.proof is not None:
        said += f", {outcome.proof['verdict']}"
    if outcome.branch:
        said += f", on branch {outcome.branch}"
    elif outcome.branch_note:
        said += f", no branch: {outcome.branch_note}"
    return f"{outcome.source}: {said}, {outcome.seconds:.1f} s, {outcome.memory / 2**20:.0f} MiB"


def summed_up(report: CampaignDocument, folder: Path) -> str:
    mistakes = sum(rule["findings"] for rule in report["rules"])
    failed = report["asked"] - report["left"] - report["done"]
    parts = [
        f"{report['done']} of {lines.count(report['asked'], 'repository', 'repositories')} done",
        *([f"{failed} failed"] if failed else []),
        *([f"{report['left']} left"] if report["left"] else []),
        lines.count(mistakes, "mistake"),
        lines.count(report["patches"], "patch", "patches"),
        *([f"{report['proved']} proved"] if report["proved"] else []),
    ]
    return f"{', '.join(parts)}.  Report: {folder / REPORT}.html and .json"
