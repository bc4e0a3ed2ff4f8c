"""The frame of every page for the browser: its template, its style, and how texts are escaped."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from autofix import __version__


def rendered(template: str, filters: dict[str, Callable[..., Any]], **values: object) -> str:
    """Return *template* as HTML.  All text from scripts and checkouts is escaped by the template engine."""
    loader = PackageLoader("autofix.report")
    environment = Environment(
        loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters |= filters
    style = Markup(loader.get_source(environment, "page.css")[0])  # ours, and no place for escapes
    return environment.get_template(template).render(style=style, version=__version__, **values)
