"""The site: `make docs` builds it into docs/_build/html, warnings as errors.

Everything a page needs lies beside it: no fonts, scripts or images from other hosts.
"""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "_extensions"))

import treebandit  # noqa: E402

project = "treebandit"
author = "the treebandit authors"
copyright = "the treebandit authors, Apache-2.0"
version = release = treebandit.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
    "api_pages",
    "docstrings",
    "repository_links",
    "unbroken_numbers",
]
exclude_patterns = ["_build", "_templates", "**/README.*", "gallery/*.py", "gallery/*.ipynb"]
templates_path = ["_templates"]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
default_role = "py:obj"
highlight_language = "none"  # of blocks that name none: commands, formulas, tables of text
show_warning_types = True

myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3
suppress_warnings = ["config.cache"]

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_use_type_comments = False
autosummary_generate = True
autosummary_imported_members = False
maximum_signature_line_length = 80
python_use_unqualified_type_names = True
python_display_short_literal_types = True
add_module_names = False
toc_object_entries_show_parents = "hide"
#: Aliases of long array types, shown by their names.
autodoc_type_aliases = {
    name: name for name in ("Features", "Floats", "Indices", "Oracle", "Classes", "StartRule", "ArmEncoding")
}

html_theme = "pydata_sphinx_theme"
html_title = "treebandit"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_js_files = ["site.js"]
html_favicon = "_static/favicon.svg"
html_copy_source = False
html_show_sourcelink = False
html_show_sphinx = False
html_theme_options = {
    "logo": {"text": "treebandit", "image_light": "_static/favicon.svg", "image_dark": "_static/favicon.svg"},
    "navigation_with_keys": False,
    "header_links_before_dropdown": 7,
    "navbar_align": "left",
    "navbar_end": ["theme-switcher"],
    "show_toc_level": 2,
    "secondary_sidebar_items": ["page-toc", "sg_download_links"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}
html_sidebars = {"index": [], "get-started": [], "paper": []}
html_context = {"default_mode": "auto"}
htmlhelp_basename = "treebandit"

copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

sphinx_gallery_conf = {
    "examples_dirs": str(HERE.parent / "examples" / "gallery"),
    "gallery_dirs": "gallery",
    "filename_pattern": r"/\d\d_\w+\.py$",
    "within_subsection_order": "FileNameSortKey",
    "download_all_examples": False,
    "remove_config_comments": True,
    "show_memory": False,
    "write_computation_times": False,  # that page would load scripts from other hosts
    "show_signature": False,
    "min_reported_time": 1,
    "copyfile_regex": r".*\.csv",
    "abort_on_example_error": True,
    "image_scrapers": ("matplotlib",),
    "reset_modules": ("gallery_style.reset",),
    "matplotlib_animations": False,
}
# A notebook front end is what the figures are for; here they are only saved.
warnings.filterwarnings("ignore", message="FigureCanvasAgg is non-interactive")
