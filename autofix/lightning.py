"""A callback for Lightning's trainer: an error of autograd that ends a fit has its cause below the traceback.

    trainer = lightning.Trainer(callbacks=[AutofixCallback()])

Works with ``lightning`` and with ``pytorch_lightning``, whichever the program has loaded.
"""

from __future__ import annotations

import importlib
import sys
from typing import Any

_PACKAGES = ("lightning.pytorch", "pytorch_lightning")


def _bases() -> tuple[type[Any], ...]:
    """The base classes of callbacks of the packages that are loaded; where none is, of the first one there is.

    Raises :class:`ModuleNotFoundError` where neither is installed.
    """
    loaded = [sys.modules[name] for name in _PACKAGES if name in sys.modules]
    for name in _PACKAGES:
        if loaded:
            break
        try:
            loaded = [importlib.import_module(name)]
        except ModuleNotFoundError as error:
            if error.name not in (name, name.partition(".")[0]):
                raise
    if not loaded:
        raise ModuleNotFoundError("AutofixCallback needs lightning or pytorch_lightning", name="lightning")
    return tuple(dict.fromkeys(module.Callback for module in loaded))


class _Explaining:
    """Behaviour of the callback; costs nothing until a fit has died."""

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        """Add the explanation of *exception* to it as a note, which is printed below its traceback."""
        if not getattr(trainer, "is_global_zero", True):
            return
        from autofix.live.death import explained

        told = explained(exception)
        if told is not None:
            exception.add_note(told.text)


AutofixCallback = type("AutofixCallback", (_Explaining, *_bases()), {"__module__": __name__, "__doc__": __doc__})
"""The callback; it takes no arguments."""
