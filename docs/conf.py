# SPDX-License-Identifier: Apache-2.0
"""Settings of Sphinx; tools/docs calls it."""

import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parent.parent

project = "Sojourn"
author = "The Sojourn authors"
copyright = f"2026, {author}"
release = re.search(r'__version__ = "([^"]+)"', (ROOT / "frontend/sojourn/__init__.py").read_text())[1]
root_doc = "docs/index"
exclude_patterns = ["README.md"]

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.graphviz",
    "breathe",
]
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3
# Fences without a language show IR, shell and tables alike.
highlight_language = "text"
suppress_warnings = ["misc.highlighting_failure"]

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_default_options = {"members": True}
autodoc_mock_imports = ["lightning"]  # of sojourn.integrations
default_role = "code"  # docstrings write `name`, as Markdown does

breathe_projects = {"sojourn": str(ROOT / "build/docs/doxygen/xml")}
breathe_default_project = "sojourn"

graphviz_output_format = "svg"

html_theme = "furo"
html_title = "Sojourn"
html_show_sourcelink = False
html_copy_source = False
