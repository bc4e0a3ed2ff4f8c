"""Distil PyTorch's derivative formulas into ``saves.json``: what each operation saves for its backward pass.

Run ``python -m codemods.autograd.distil_saves`` where a torch wheel is installed; it needs its ``torchgen`` package,
which carries ``derivatives.yaml`` and the code that reads it, and imports no torch.  Source of every entry: that table.

For an operation, ``args`` are its tensor arguments in order and ``saves`` maps each differentiable argument to what is
saved when that argument requires a gradient: names of arguments, or ``result``.  The overloads of an operation are
merged; sizes and options are not tensors and are left out.  An in-place operation that saves something else than the
one that makes a new tensor (``elu_`` its result, ``elu`` its input) has an entry of its own.
"""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

TARGET = Path(__file__).with_name("saves.json")


def _is_tensor(nctype: Any) -> bool:
    return "name='Tensor'" in str(nctype.type) or "tensorListT" in str(nctype.type) or "TensorList" in str(nctype.type)


def _distil(info: Any) -> dict[str, Any]:
    args = [argument.name for argument in info.func.func.schema_order_arguments() if "Tensor" in str(argument.type)]
    saves: dict[str, list[str]] = {}
    for derivative in info.derivatives:
        names = [saved.nctype.name for saved in derivative.saved_inputs if _is_tensor(saved.nctype)]
        # A wrapped number is saved as a tensor as well: `x * 2` cannot be walked twice.
        # Further outputs (a dropout's mask, a norm's statistics) keep their names: no script gets hold of them.
        names += [saved.nctype.name for saved in derivative.saved_outputs if _is_tensor(saved.nctype)]
        names = ["result" if name == "result0" else name for name in names]
        for variable in derivative.var_names:
            saves[variable] = sorted({*saves.get(variable, []), *names})
    return {"args": args, "saves": saves}


def main() -> None:
    import torchgen  # type: ignore[import-untyped,import-not-found,unused-ignore]
    from torchgen.packaged.autograd.load_derivatives import (  # type: ignore[import-untyped,import-not-found,unused-ignore]
        load_derivatives,
    )

    packaged = Path(torchgen.__file__).parent / "packaged"
    table, _ = load_derivatives(
        str(packaged / "autograd/derivatives.yaml"),
        str(packaged / "ATen/native/native_functions.yaml"),
        str(packaged / "ATen/native/tags.yaml"),
    )
    distilled: dict[str, dict[str, Any]] = {}
    infos = [by_key["Default"] for by_key in table.values() if "Default" in by_key]
    for info in sorted(infos, key=lambda info: bool(info.func.func.name.name.inplace)):
        if not info.has_derivatives:
            continue
        name = str(info.func.func.name.name.base)
        entry = _distil(info)
        if info.func.func.name.name.inplace and "result" in itertools.chain(*entry["saves"].values()):
            name += "_"
        known = distilled.setdefault(name, entry)
        for variable, names in entry["saves"].items():
            known["saves"][variable] = sorted({*known["saves"].get(variable, []), *names})
        known["args"] = max(known["args"], entry["args"], key=len)
    lines = [f"  {json.dumps(name)}: {json.dumps(distilled[name])}" for name in sorted(distilled)]
    TARGET.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
    print(f"{len(distilled)} operations written to {TARGET}")


if __name__ == "__main__":
    main()
