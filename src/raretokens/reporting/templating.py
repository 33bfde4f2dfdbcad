"""Jinja as every report uses it: a name that is not given is a mistake."""

from typing import Any

import jinja2


def environment(package: str, **options: Any) -> jinja2.Environment:
    """Templates of a package's folder `templates`."""
    loader = jinja2.PackageLoader(package)
    return jinja2.Environment(loader=loader, trim_blocks=True, undefined=jinja2.StrictUndefined, **options)
