"""The table of ``make benchmark`` must count as its headings say."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.benchmark.cases import Case, MalformedCase, case, changed_lines, load, started
from tests.benchmark.contenders import anomaly, check
from tests.benchmark.score import Alarm, Repaired, Score, total

FIXTURES = Path(__file__).parents[1] / "fixtures"


def put(folder: Path, about: str = "{}", **texts: str) -> Path:
    """Write a case: ``broken__main_py="..."`` is the text of broken/main.py."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "about.json").write_text(about)
    for name, text in texts.items():
        place = folder / name.replace("__", "/").replace("_py", ".py")
        place.parent.mkdir(exist_ok=True)
        place.write_text(text)
    return folder


def test_a_case_of_single_files(tmp_path: Path) -> None:
    put(tmp_path / "one", '{"kind": "k"}', broken_py="a\nb\n", fixed_py="a\nc\n")
    (tmp_path / "no case").mkdir()
    (known,) = load(tmp_path)
    assert (known.name, known.kind, known.clean) == ("one", "k", None)
    assert known.changed == {(".", 2)}


def test_a_case_of_folders(tmp_path: Path) -> None:
    about = '{"entry": "broken/sub/go.py"}'
    texts = {"broken": "x = 1\n", "fixed": "x = 2\n"}
    for name, text in texts.items():
        put(tmp_path, about, **{f"{name}__model_py": text})
        (tmp_path / name / "sub").mkdir()
        (tmp_path / name / "sub" / "go.py").write_text("import model\n")
    known = case(tmp_path)
    assert known.broken is not None
    assert known.broken.entry == tmp_path / "broken" / "sub" / "go.py"
    assert known.changed == {("model.py", 1)}


def test_the_authors_word_on_the_cause_comes_before_the_repair(tmp_path: Path) -> None:
    known = case(put(tmp_path / "one", '{"cause_lines": [1]}', broken_py="a\nb\n", fixed_py="a\nc\n"))
    assert known.causes == {(".", 1)}
    several = {"broken__model_py": "a\n", "broken__main_py": "b\n", "fixed__model_py": "c\n", "fixed__main_py": "b\n"}
    known = case(put(tmp_path / "two", '{"cause_lines": ["model.py:1", 7]}', **several))
    assert known.causes == {("model.py", 1), ("main.py", 7)}


@pytest.mark.parametrize(
    "there", [{"broken_py": "a"}, {"fixed_py": "a"}, {}], ids=["no repair", "no script", "nothing"]
)
def test_what_is_no_case_is_refused(tmp_path: Path, there: dict[str, str]) -> None:
    with pytest.raises(MalformedCase):
        case(put(tmp_path, **there))


def test_a_script_without_a_mistake_is_a_case(tmp_path: Path) -> None:
    known = case(put(tmp_path, clean_py="print(1)\n"))
    assert check(known) == Score()


@pytest.mark.parametrize(
    ("entry", "file"),
    [
        ("broken/main.py", "main.py"),
        ("python -m pack.train (in x/)", "pack/train.py"),
        ("broken.py", ""),
        ("", ""),
    ],
)
def test_where_a_case_starts(entry: str, file: str) -> None:
    assert started(entry) == file


@pytest.mark.parametrize(
    ("after", "lines"),
    [("a\nb\nc", set()), ("a\nB\nc", {2}), ("a\nc", {2}), ("a\nb\nnew\nc", {2, 3}), ("new\na\nb\nc", {0, 1})],
    ids=["nothing", "changed", "removed", "inserted", "inserted first"],
)
def test_changed_lines(after: str, lines: set[int]) -> None:
    assert changed_lines("a\nb\nc", after) == lines


def fixture(name: str = "detach_stored") -> Case:
    return case(FIXTURES / name)


def test_check_is_scored() -> None:
    assert check(fixture()) == Score(found=True, cause=True, repaired=Repaired.EXACTLY)


def test_another_repair_is_held_to_the_proof(tmp_path: Path) -> None:
    texts = {name: (FIXTURES / "detach_stored" / f"{name}.py").read_text() for name in ("broken", "fixed")}
    put(tmp_path, broken_py=texts["broken"], fixed_py=texts["fixed"].replace(".detach()", ".clone().detach()"))
    assert check(case(tmp_path)).repaired is Repaired.DIFFERENTLY


def test_an_alarm_in_a_look_alike_counts(tmp_path: Path) -> None:
    broken = (FIXTURES / "detach_stored" / "broken.py").read_text()
    assert check(case(put(tmp_path, clean_py=broken))).alarm is Alarm.CHANGED


def test_anomaly_mode_names_the_forward_call_and_not_the_cause() -> None:
    score = anomaly(fixture())
    assert (score.found, score.cause) == (True, False)


def test_the_sums() -> None:
    scores = [Score(True, True, Repaired.EXACTLY), Score(True, False, Repaired.WRONGLY), Score(alarm=Alarm.CHANGED)]
    row = total(scores, broken=2, clean=1)
    assert (row.found, row.cause, row.exactly, row.wrong, row.alarms, row.harmed) == (2, 1, 1, 1, 1, 1)
