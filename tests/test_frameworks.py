"""Training loops that a framework runs: Lightning's, and the loop of transformers' trainer."""

from __future__ import annotations

import textwrap

import pytest

from autofix.engine import Analysis, analyse

LIGHTNING = """\
import torch
import torch.nn.functional as F
from torch import nn
import pytorch_lightning as pl

class Model(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = nn.GRU(4, 4)
        self.head = nn.Linear(4, 1)
        self.raw = nn.Parameter(torch.ones(4))
        self.state = None
        self.kept = []
        self.mean = torch.zeros(4)
"""
FIT = "\npl.Trainer(max_epochs=3).fit(Model(), batches)\n"


def method(text: str) -> str:
    return textwrap.indent(textwrap.dedent(text), "    ")


def model(*methods: str, fit: str = FIT) -> Analysis:
    return analyse(LIGHTNING + "\n" + "\n".join(map(method, methods)) + fit, "train.py")


CARRIES = """
    def training_step(self, batch, batch_idx):
        out, self.state = self.net(batch, self.state)
        return self.head(out).mean()
"""
BROKEN = {
    "a state is carried on": (CARRIES, "AF102", "self.state = self.state.detach()"),
    "a moving average": (
        """
        def training_step(self, batch):
            out, _ = self.net(batch)
            self.mean = 0.9 * self.mean + 0.1 * out.mean((0, 1))
            return {"loss": (out - self.mean).pow(2).mean(), "out": out}
        """,
        "AF102",
        "self.mean = self.mean.detach()",
    ),
    "losses kept for the end of the epoch": (
        """
        def training_step(self, batch, batch_idx):
            loss = self.head(self.net(batch)[0]).mean()
            self.kept.append(loss)
            return loss

        def on_train_epoch_end(self):
            print(sum(self.kept) / len(self.kept))
        """,
        "AF601",
        "self.kept.append(loss.detach())",
    ),
    "a parameter transformed by the constructor": (
        """
        def setup(self):
            pass

        def training_step(self, batch, batch_idx):
            return (self.net(batch)[0] * self.scale).mean()

        def __init__(self):
            super().__init__()
            self.net = nn.GRU(4, 4)
            self.raw = nn.Parameter(torch.ones(4))
            self.scale = F.softplus(self.raw)
        """,
        "AF103",
        "self.scale = F.softplus(self.raw)",
    ),
    "one batch for two optimizers": (
        """
        def training_step(self, batch, batch_idx, optimizer_idx):
            if optimizer_idx == 0:
                self.fake, _ = self.net(batch)
                return -self.head(self.fake).mean()
            return self.head(self.fake).mean()
        """,
        "AF102",
        "self.fake = self.fake.detach()",
    ),
    "a loss that lost its graph": (
        """
        def training_step(self, batch, batch_idx):
            return torch.tensor(self.head(self.net(batch)[0]).mean())
        """,
        "AF401",
        "return self.head(self.net(batch)[0]).mean()",
    ),
}
RIGHT = {
    "the state is reset by a hook": (
        CARRIES,
        """
        def on_train_batch_end(self, outputs, batch, batch_idx):
            self.state = self.state.detach()
        """,
    ),
    "the state begins anew with each batch": (
        CARRIES,
        """
        def on_train_batch_start(self, batch, batch_idx):
            self.state = None
        """,
    ),
    "outputs come without their graph": (
        """
        def training_step(self, batch, batch_idx):
            return self.head(self.net(batch)[0]).mean()

        def on_train_batch_end(self, outputs, batch, batch_idx):
            self.kept.append(outputs["loss"])
        """,
    ),
    "hidden states that the framework carries on": (
        """
        def training_step(self, batch, batch_idx, hiddens):
            out, hiddens = self.net(batch, hiddens)
            return {"loss": self.head(out).mean(), "hiddens": hiddens}
        """,
    ),
    "some batches are skipped": (
        """
        def training_step(self, batch, batch_idx):
            if batch_idx % 5 == 3:
                return None
            return self.head(self.net(batch)[0]).mean()
        """,
    ),
    "passes by hand": (
        """
        def training_step(self, batch, batch_idx):
            loss = self.head(self.net(batch)[0]).mean()
            self.optimizers().zero_grad()
            self.manual_backward(loss)
            self.optimizers().step()
            return loss

        def __init__(self):
            super().__init__()
            self.automatic_optimization = False
            self.net, self.head = nn.GRU(4, 4), nn.Linear(4, 1)
        """,
    ),
}


@pytest.mark.parametrize("fit", [FIT, ""], ids=["fit", "nobody fits it"])
@pytest.mark.parametrize(("methods", "code", "patch"), BROKEN.values(), ids=list(BROKEN))
def test_a_mistake_between_two_steps_of_lightning_is_repaired(methods: str, code: str, patch: str, fit: str) -> None:
    analysis = model(methods, fit=fit)
    if code == "AF601" and not fit:  # whoever makes the module may read what it keeps
        assert analysis.findings == ()
        return
    assert [(finding.code, finding.fixed) for finding in analysis.findings] == [(code, True)]
    assert patch in analysis.patched


@pytest.mark.parametrize("fit", [FIT, ""], ids=["fit", "nobody fits it"])
@pytest.mark.parametrize("methods", RIGHT.values(), ids=list(RIGHT))
def test_a_right_module_is_left_alone(methods: tuple[str, ...], fit: str) -> None:
    assert model(*methods, fit=fit).findings == ()


TRAINER = """\
import torch
from transformers import AutoModel, Trainer

class MyTrainer(Trainer):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.centre = torch.zeros(768)

    def compute_loss(self, model, inputs, return_outputs=False, **kwargs):
        outputs = model(**inputs)
        hidden = outputs.last_hidden_state.mean(1)
        self.centre = 0.9 * self.centre + 0.1 * hidden{detach}.mean(0)
        loss = outputs.loss + (hidden - self.centre).pow(2).mean()
        return (loss, outputs) if return_outputs else loss

MyTrainer(model=AutoModel.from_pretrained("bert"), train_dataset=data).train()
"""


def test_a_centre_in_the_loss_of_transformers_trainer_is_detached() -> None:
    analysis = analyse(TRAINER.format(detach=""), "train.py")
    assert [(finding.code, finding.fixed) for finding in analysis.findings] == [("AF102", True)]
    assert "self.centre = self.centre.detach()" in analysis.patched


def test_a_centre_of_detached_features_is_left_alone() -> None:
    assert analyse(TRAINER.format(detach=".detach()"), "train.py").findings == ()


def test_findings_of_two_modules_in_one_file_are_told_each_at_its_place() -> None:
    second = LIGHTNING.partition("class ")[2].replace("Model(", "Other(")
    text = LIGHTNING + method(CARRIES) + "\nclass " + second + method(CARRIES)
    analysis = analyse(text, "train.py")
    lines = [number for number, line in enumerate(text.splitlines(), 1) if "self.net(batch, self.state)" in line]
    assert [finding.cause.line for finding in analysis.findings] == lines


def test_the_loop_spans_files() -> None:
    train = "import pytorch_lightning as pl\nfrom model import Model\npl.Trainer().fit(Model(), batches)\n"
    analysis = analyse(train, "train.py", others={"model.py": LIGHTNING + method(CARRIES)})
    assert [finding.cause.path for finding in analysis.findings] == ["model.py"]
    assert "detach()" in {file.path: file.text for file in analysis.repaired.files}["model.py"]


def test_the_loss_of_a_method_that_was_not_read_may_be_none() -> None:
    """The framework's loop asks for it in a condition that stands in no file."""
    step = """
        def training_step(self, batch, batch_idx):
            loss, score = unread.losses(batch)
            return dict(loss=loss, score=score)
        """
    assert model(step).findings == ()


BY_HAND = """\
import torch
from torch import nn
import lightning as L

class Model(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.automatic_optimization = False
        self.maker, self.judge = nn.Linear(4, 4), nn.Linear(4, 1)

    def configure_optimizers(self):
        first, second = torch.optim.Adam(self.maker.parameters()), torch.optim.Adam(self.judge.parameters())
        scheduler = torch.optim.lr_scheduler.StepLR(first, 10)
        return RETURNED

    def training_step(self, batch, batch_idx):
        maker_optimizer, judge_optimizer = self.optimizers()
        made = self.maker(batch)
        judged = self.judge(made)
        judge_loss = judged.pow(2).mean() + (self.judge(batch) - 1).pow(2).mean()
        judge_optimizer.zero_grad()
        self.manual_backward(judge_loss, retain_graph=True)
        judge_optimizer.step()
        maker_loss = (judged - 1).pow(2).mean()
        maker_optimizer.zero_grad()
        self.manual_backward(maker_loss)
        maker_optimizer.step()
"""


@pytest.mark.parametrize(
    "returned",
    [
        "first, second",
        "[first, second]",
        "[first, second], [scheduler]",
        '({"optimizer": first, "lr_scheduler": scheduler}, {"optimizer": second})',
    ],
)
def test_a_step_by_hand_is_that_of_an_optimizer_which_the_module_configures(returned: str) -> None:
    analysis = analyse(BY_HAND.replace("RETURNED", returned), "train.py")
    assert [(finding.code, finding.fixed) for finding in analysis.findings] == [("AF104", True)]
    assert "judged = self.judge(made.detach())" in analysis.patched
    assert "judged = self.judge(made)\n        maker_loss" in analysis.patched


def test_optimizers_that_are_not_read_are_not_known() -> None:
    assert analyse(BY_HAND.replace("RETURNED", "unread(self)"), "train.py").findings == ()


BY_TURNS = """
    def training_step(self, batch, batch_idx):
        maker_optimizer, judge_optimizer = self.optimizers()
        self.toggle_optimizer(maker_optimizer)
        made = self.maker(batch)
        maker_loss = (self.judge(made) - 1).pow(2).mean()
        self.manual_backward(maker_loss)
        maker_optimizer.step()
        maker_optimizer.zero_grad()
        self.untoggle_optimizer(maker_optimizer)
        self.toggle_optimizer(judge_optimizer)
        judge_loss = self.judge(made).pow(2).mean() + (self.judge(batch) - 1).pow(2).mean()
        self.manual_backward(judge_loss)
        judge_optimizer.step()
        judge_optimizer.zero_grad()
        self.untoggle_optimizer(judge_optimizer)
"""


def test_optimizers_take_turns() -> None:
    text = BY_HAND.partition("\n    def training_step")[0].replace("RETURNED", "first, second") + BY_TURNS
    analysis = analyse(text, "train.py")
    assert [(finding.code, finding.fixed) for finding in analysis.findings] == [("AF104", True)]
    assert "judge_loss = self.judge(made.detach()).pow(2)" in analysis.patched
    right = text.replace("judge_loss = self.judge(made)", "judge_loss = self.judge(made.detach())")
    assert analyse(right, "train.py").findings == ()


def test_one_optimizer_that_is_configured_is_no_list() -> None:
    step = """
        def training_step(self, batch, batch_idx):
            out = self.head(self.net(batch)[0])
            self.manual_backward(out.mean(), retain_graph=True)
            self.optimizers().step()
            self.manual_backward(out.pow(2).mean())
            self.optimizers().step()

        def configure_optimizers(self):
            return torch.optim.Adam(self.parameters())

        def __init__(self):
            super().__init__()
            self.automatic_optimization = False
            self.net, self.head = nn.GRU(4, 4), nn.Linear(4, 1)
        """
    assert [finding.fact.raised is not None for finding in model(step).findings] == [True]
