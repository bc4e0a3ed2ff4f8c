"""Scripts of several files: imports from the project are read with the script, and repaired where they stand."""

from __future__ import annotations

import textwrap
from dataclasses import replace
from pathlib import Path

import pytest

from autofix.checking import Result, check
from autofix.cli import main
from autofix.codemods.rewriting.patch import Patch
from autofix.outcomes import Outcomes
from autofix.project import files
from autofix.project.gather import MOST_FILES, gather

MODEL = """
    import torch
    import torch.nn as nn

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.cell = nn.GRUCell(3, 4)
            self.state = torch.zeros(2, 4)

        def forward(self, x):
            self.state = self.cell(x, self.state)
            return self.state
"""
TRAIN = """
    import torch
    from {module} import Net

    def main():
        net = Net()
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        for _ in range(5):
            loss = net(torch.randn(2, 3)).pow(2).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()

    if __name__ == "__main__":
        main()
"""


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def put(name: str, text: str, **names: str) -> Path:
    path = Path(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(textwrap.dedent(text).lstrip().replace("{module}", names.get("module", "")))
    return path


def places(outcome: object) -> list[tuple[str, int]]:
    assert isinstance(outcome, Result)
    return [(finding.cause.path, finding.cause.line) for finding in outcome.analysis.findings]


@pytest.mark.parametrize(
    ("script", "model", "module"),
    [
        ("train.py", "model.py", "model"),
        ("train.py", "nets/model.py", "nets.model"),
        ("pkg/train.py", "pkg/model.py", ".model"),
        ("pkg/bin/train.py", "pkg/nets/model.py", "..nets.model"),
        ("pkg/bin/train.py", "pkg/nets/model.py", "pkg.nets.model"),
    ],
)
def test_a_mistake_in_an_imported_file_is_found_and_repaired_there(script: str, model: str, module: str) -> None:
    for package in ("pkg", "pkg/bin", "pkg/nets"):
        if script.startswith("pkg"):
            put(f"{package}/__init__.py", "")
    put(model, MODEL)
    train = put(script, TRAIN, module=module)
    (outcome,) = check([train])
    assert places(outcome) == [(model, 11)]
    assert isinstance(outcome, Result)
    (edit,) = outcome.edits
    assert edit.path == Path(model).absolute()
    assert "self.state = self.cell(x, self.state)" in edit.text  # the state is used in the iteration that makes it
    assert ".detach()" in edit.text


@pytest.mark.parametrize("imported", ["import model\n", "import model as m\n", "from model import *\n"])
def test_every_way_to_import_is_followed(imported: str) -> None:
    name = {"import model\n": "model.Net", "import model as m\n": "m.Net"}.get(imported, "Net")
    put("model.py", MODEL)
    train = put("train.py", TRAIN, module="model")
    train.write_text(train.read_text().replace("from model import Net\n", imported).replace("Net()", f"{name}()"))
    (outcome,) = check([train])
    assert places(outcome) == [("model.py", 11)]


def test_two_scripts_that_share_a_mistake_tell_and_repair_it_once(capsys: pytest.CaptureFixture[str]) -> None:
    put("model.py", MODEL)
    put("train.py", TRAIN, module="model")
    put("finetune.py", TRAIN, module="model")
    assert main(["check", "-q"]) == 1
    assert capsys.readouterr().out.count("AF102") == 1
    assert main(["check", "--fix"]) == 0
    assert Path("model.py").read_text().count(".detach()") == 1
    assert main(["check"]) == 0


@pytest.mark.parametrize(
    ("code", "follows"),
    [
        ("if args.check:\n    print('nothing')\nelse:\n    model.train()\n", True),
        ("try:\n    model.Net().train()\nfinally:\n    print('done')\n", True),
        ("model.Trainer.fit(args)\n", True),
        ("scores = model.train(args)\n", True),
        ("history: dict = model.Trainer(args).fit()\n", True),
        ("results = [model.run_once(seed) for seed in range(3)]\n", True),
        ("sys.exit(model.main())\n", True),
        ("if (score := model.train(args)):\n    print(score)\n", True),
        ("try:\n    score = model.train(args)\nexcept KeyboardInterrupt:\n    pass\n", True),
        ("def train(args):\n    return model.train(args)\n", False),
        ("training = model.settings(args)\n", False),
        ("if args.check:\n    sys.path.append('..')\n    torch.manual_seed(0)\n", False),
        ("try:\n    import apex\nexcept ImportError:\n    apex = None\n", False),
        ("import_time = model.now()\n", False),
    ],
)
def test_a_script_without_main_is_followed_where_it_does_something(code: str, *, follows: bool) -> None:
    put("model.py", textwrap.dedent(MODEL) + "def improve(loss):\n    loss.backward()\n")
    train = put("train.py", f"import sys\nimport torch\nimport model\nargs = model.parse()\n{code}")
    assert bool(gather(train, files.read(train)).companions) is follows


def test_a_script_that_cannot_be_parsed_elsewhere_is_read_alone() -> None:
    put("model.py", "class Net(:\n")
    train = put("train.py", TRAIN, module="model")
    assert gather(train, files.read(train)).companions == {}


def test_files_that_import_each_other_end() -> None:
    put("model.py", "import train\n" + textwrap.dedent(MODEL))
    train = put("train.py", TRAIN, module="model")
    assert list(gather(train, files.read(train)).companions) == ["model.py"]
    (outcome,) = check([train])
    assert [path for path, _ in places(outcome)] == ["model.py"]


def test_what_a_project_brings_with_it_is_bounded() -> None:
    for number in range(MOST_FILES + 5):
        put(f"part{number}.py", "import torch\n")
    imports = "".join(f"import part{number}\n" for number in range(MOST_FILES + 5))
    script = put("train.py", f"import torch\n{imports}loss = torch.ones(1)\nloss.backward()\n")
    assert len(gather(script, files.read(script)).companions) == MOST_FILES


def test_nothing_outside_of_the_folder_is_read_where_it_must_not() -> None:
    put("pkg/__init__.py", "")
    put("pkg/bin/__init__.py", "")
    put("pkg/model.py", MODEL)
    train = put("pkg/bin/train.py", TRAIN, module="..model")
    assert "pkg/model.py" in gather(train, files.read(train)).companions
    assert gather(train, files.read(train), within=train.parent.absolute()).companions == {}


def test_a_file_of_a_package_may_have_the_name_of_the_package() -> None:
    put("model/deep/model.py", MODEL)
    run = put("model/deep/run.py", TRAIN, module="model.deep.model")
    put("pyproject.toml", "")
    assert "model/deep/model.py" in gather(run, files.read(run)).companions


@pytest.mark.parametrize("place", ["repository", "repository/system", "/"])
def test_a_folder_is_a_project_wherever_its_check_is_started(
    place: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The package ``nets`` lies beside the script that uses it, which is not in view, in a folder of the repository."""
    put("repository/system/nets/model.py", MODEL)
    put("repository/system/nets/runs/train.py", TRAIN, module="nets.model")
    folder = Path("repository").absolute()
    monkeypatch.chdir(place)
    assert main(["check", "--no-cache", "--output-format", "concise", str(folder)]) == 1
    assert "AF102" in capsys.readouterr().out


def test_a_package_may_have_a_part_called_torch() -> None:
    for package in ("pkg", "pkg/torch", "pkg/torch/algos"):
        put(f"{package}/__init__.py", "")
    put("pkg/torch/__init__.py", "def double(x):\n    return 2 * x\n")
    text = """\
        import torch
        from torch import nn
        from pkg.torch import double
        net, target = nn.Linear(3, 1), nn.Linear(3, 1)
        opt = torch.optim.SGD(net.parameters(), lr=0.1)
        for _ in range(3):
            x = torch.randn(4, 3)
            with torch.no_grad():
                aim = double(target(x))
            loss = (net(x) - aim).pow(2).mean() + (net(2 * x) - aim).pow(2).mean()
            opt.zero_grad(); loss.backward(); opt.step()
            print(aim.numpy())
        """
    (outcome,) = check([put("pkg/torch/algos/train.py", text)])
    assert places(outcome) == []


PLAYER = """
    import torch
    from torch import nn
    from helpers import Learner, improve

    class Player(Learner):
        def __init__(self):
            super().__init__()
            self.actor = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
            self.judge = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 1))
            self.actor_opt = torch.optim.Adam(self.actor.parameters())
            self.judge_opt = torch.optim.Adam(self.judge.parameters())

        def learn(self, rows, wanted):
            act = self.actor(rows)
            actor_loss = -self.judge(torch.cat([rows, act], 1)).mean()
            judge_loss = (self.judge(torch.cat([rows, act.detach()], 1)) - wanted).pow(2).mean()
            {module}
"""
HELPERS = """
    from torch import nn

    class Learner(nn.Module):
        def descend(self, loss, optimizer):
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()

    def improve(loss, optimizer):
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""
CALLS = {
    "inherited": "self.descend({0}_loss, self.{0}_opt)",
    "imported": "improve({0}_loss, self.{0}_opt)",
    "on-two-lines": "improve(\n                {0}_loss, self.{0}_opt\n            )",
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_a_method_that_hands_its_loss_to_another_file_is_entered_where_no_script_is_in_view(call: str) -> None:
    put("helpers.py", HELPERS)
    late, early = call.format("actor"), call.format("judge")
    put("player.py", PLAYER, module=f"{early}\n        {late}")
    assert [places(one) for one in check([Path("player.py")])] == [[("player.py", 15)]]
    put("player.py", PLAYER, module=f"{late}\n        {early}")
    assert [places(one) for one in check([Path("player.py")])] == [[]]


def test_a_file_that_only_counts_losses_brings_no_others() -> None:
    put("meters.py", "def add(loss): print(loss)")
    path = put(
        "model.py",
        """
        import torch
        from meters import add

        class Net(torch.nn.Module):
            def losses(self, out, stats):
                loss = out.mean()
                stats.update(loss=loss)
                add(loss)
                return loss
        """,
    )
    assert not gather(path, files.read(path)).companions


OPTIONS = """
    import argparse

    def parse():
        parser = argparse.ArgumentParser()
        parser.add_argument("--model", default="two_nets")
        return parser.parse_args()
"""
CHOSEN = """
    import importlib
    import torch
    from options import parse

    def main():
        opt = parse()
        {load}
        net = library.Net()
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        for _ in range(5):
            loss = net(torch.randn(2, 3)).pow(2).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()

    if __name__ == "__main__":
        main()
"""


@pytest.mark.parametrize(
    "load",
    [
        'library = importlib.import_module("models." + opt.model)',
        'library = importlib.import_module(f"models.{opt.model}")',
        'library = importlib.import_module("models.%s" % opt.model)',
        'library = importlib.import_module("models.{}".format(opt.model))',
        'library = importlib.import_module("." + opt.model, "models")',
        'name = "models." + vars(opt)["model"]; library = importlib.import_module(name)',
    ],
)
def test_a_module_that_an_option_names_is_read(load: str) -> None:
    put("options.py", OPTIONS)
    put("models/__init__.py", "")
    put("models/two_nets.py", MODEL)
    script = put("train.py", CHOSEN.replace("{load}", load))
    (result,) = check([script])
    assert places(result) == [("models/two_nets.py", 11)]


def test_a_module_is_chosen_from_a_package_by_the_name_of_its_class() -> None:
    put("options.py", OPTIONS)
    put("models/two_nets_model.py", MODEL.replace("class Net", "class TwoNetsModel"))
    put(
        "models/__init__.py",
        """
        import importlib

        def create(opt):
            library = importlib.import_module("models." + opt.model + "_model")
            wanted = opt.model.replace("_", "") + "model"
            for name, cls in library.__dict__.items():
                if name.lower() == wanted.lower():
                    return cls()
        """,
    )
    text = CHOSEN.replace("{load}", "").replace("library.Net()", "create(opt)")
    script = put("train.py", text.replace("import importlib", "from models import create"))
    (result,) = check([script])
    assert places(result) == [("models/two_nets_model.py", 11)]


@pytest.mark.parametrize(("relative", "found"), [(True, "helpers/model.py"), (False, "sim/helpers.py")])
def test_a_file_with_relative_imports_is_no_script(*, relative: bool, found: str) -> None:
    """Beside a part of a package lies a file with the name of another package: only a script means the file."""
    put("helpers/__init__.py", "from helpers.model import Net\n")
    put("helpers/model.py", MODEL)
    put("sim/__init__.py", "")
    put("sim/losses.py", "def half(x):\n    return x / 2\n")
    put("sim/helpers.py", "from helpers import Net as Other\n" + textwrap.dedent(MODEL))
    own = "from .helpers import Other\nfrom .losses import half\n" if relative else ""
    script = put("sim/train.py", own + textwrap.dedent(TRAIN), module="helpers")
    assert {place for place, _ in places(next(check([script])))} == {found}


def test_a_mistake_that_one_of_two_scripts_has_no_repair_for_is_told_once() -> None:
    """As one of them leads to it, the mistake is certain and repaired: what the other knows of it adds nothing."""
    put("model.py", MODEL)
    first, second = (next(check([put(name, TRAIN, module="model")])) for name in ("first.py", "second.py"))
    assert isinstance(first, Result)
    assert isinstance(second, Result)
    (finding,) = second.analysis.findings
    is_open = replace(finding, code="AF100", fixed=False, remedy="")
    left = replace(second, analysis=replace(second.analysis, findings=(is_open,), patch=Patch(second.analysis.program)))
    for results in ((first, left), (left, first)):
        outcomes = Outcomes(tell=lambda _: None)
        for result in results:
            outcomes.add(result)
        assert outcomes.findings == list(first.analysis.findings)
        outcomes.add(left)
        outcomes.add(first)
        assert outcomes.findings == list(first.analysis.findings)


def test_of_one_mistake_the_repair_that_is_to_be_looked_at_is_told() -> None:
    """As neither script leads to it, the mistake is certain; one of them has a repair for it."""
    put("model.py", MODEL)
    result = next(check([put("train.py", TRAIN, module="model")]))
    assert isinstance(result, Result)
    (finding,) = result.analysis.findings
    is_open = replace(finding, code="AF100", fixed=False, remedy="")
    to_review = replace(finding, fixed=False, needs_review=True)
    for findings in ((is_open, to_review), (to_review, is_open)):
        outcomes = Outcomes(tell=lambda _: None)
        for one in findings:
            analysis = replace(result.analysis, findings=(one,), patch=Patch(result.analysis.program))
            outcomes.add(replace(result, analysis=analysis))
        assert outcomes.findings == [to_review]


def test_two_findings_without_a_repair_are_told_by_their_codes() -> None:
    put("model.py", MODEL)
    result = next(check([put("train.py", TRAIN, module="model")]))
    assert isinstance(result, Result)
    (finding,) = result.analysis.findings
    outcomes = Outcomes(tell=lambda _: None)
    for code in ("AF100", "AF102"):
        is_open = replace(finding, code=code, fixed=False)
        analysis = replace(result.analysis, findings=(is_open,), patch=Patch(result.analysis.program))
        outcomes.add(replace(result, analysis=analysis))
    assert [one.code for one in outcomes.findings] == ["AF100", "AF102"]
