"""The results of a campaign as data: by rule, and by repository."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from autofix.campaign.store import PATCHES, RESULTS
from autofix.campaign.task import Outcome
from autofix.report.documents import header

if TYPE_CHECKING:
    from autofix.report.schema import CampaignDocument, RepositoryObject, RuleObject


def document(outcomes: Sequence[Outcome], asked: int) -> CampaignDocument:
    """The report on the repositories that are over, out of the number that was *asked* for."""
    done = [outcome for outcome in outcomes if outcome.status == "done"]
    return {
        **header("campaign"),
        "asked": asked,
        "left": asked - len(outcomes),
        "done": len(done),
        "files": sum(_files(outcome) for outcome in done),
        "seconds": round(sum(outcome.seconds for outcome in outcomes), 3),
        "memory": max((outcome.memory for outcome in outcomes), default=0),
        "patches": sum(bool(outcome.patch) for outcome in done),
        "proved": sum(outcome.proved for outcome in done),
        "rules": rules(done),
        "repositories": [repository(outcome) for outcome in outcomes],
    }


def for_report(outcome: Outcome) -> Outcome:
    """The outcome with as much of its document as a report needs: of 100,000, the whole would fill the memory."""
    document = outcome.document
    if document is None:
        return outcome
    found = [
        {
            **{key: one[key] for key in ("code", "name", "message")},
            "roles": [role for role in one["roles"] if role["cause"]][:1],
        }
        for one in outcome.findings
    ]
    kept = {"findings": found, "patch": document["patch"][:1], "passes": None, "evidence": None}
    return replace(outcome, document={**document, **kept})


def rules(outcomes: Sequence[Outcome]) -> list[RuleObject]:
    """Counts of findings and of repositories for each mistake, the most frequent first."""
    count: Counter[tuple[str, str]] = Counter()
    repositories: Counter[tuple[str, str]] = Counter()
    for outcome in outcomes:
        found = [(one["code"], one["name"]) for one in outcome.findings]
        count.update(found)
        repositories.update(set(found))
    return [
        {"code": code, "name": name, "findings": number, "repositories": repositories[code, name]}
        for (code, name), number in sorted(count.items(), key=lambda item: (-item[1], item[0]))
    ]


def repository(outcome: Outcome) -> RepositoryObject:
    proof = outcome.proof
    return {
        "name": outcome.name,
        "source": outcome.source,
        "command": list(outcome.command),
        "status": outcome.status,
        "reason": outcome.reason,
        "revision": outcome.revision,
        "seconds": outcome.seconds,
        "memory": outcome.memory,
        "tries": outcome.tries,
        "files": _files(outcome),
        "findings": dict(sorted(Counter(one["code"] for one in outcome.findings).items())),
        "problems": len((outcome.document or {}).get("problems", [])),
        "patch": f"{PATCHES}/{outcome.name}.diff" if outcome.patch else "",
        "verdict": str(proof["verdict"]) if proof else "",
        "proved": outcome.proved,
        "branch": outcome.branch,
        "branch_note": outcome.branch_note,
        "result": f"{RESULTS}/{outcome.name}.json",
    }


def _files(outcome: Outcome) -> int:
    return int((outcome.document or {}).get("files", 0))
