"""The site: `make docs` builds it from these pages, the docstrings and the gallery."""

import os
import warnings

import matplotlib as mpl

import skdpsynth

mpl.use("Agg")
warnings.simplefilter("ignore")  # in the gallery; the tests run it with errors

project = "skdpsynth"
author = "The skdpsynth developers"
version = release = skdpsynth.__version__

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.extlinks",
    "sphinx_copybutton",
    "sphinx_gallery.gen_gallery",
]
templates_path = ["_templates"]
exclude_patterns = ["_build"]
nitpicky = True
nitpick_ignore = [
    ("py:class", "sklearn.pipeline.Pipeline")
]  # their inventory is online
default_role = "literal"

# Pages are plain Markdown; links go to headings as on GitHub.
myst_heading_anchors = 3

# One page per public object. Types stand in the docstrings, not in the signatures.
autodoc_typehints = "none"
autodoc_default_options = {
    "exclude-members": "get_metadata_routing",  # of scikit-learn, and of no use here
    "inherited-members": "BaseException,object",
}
numpydoc_show_class_members = False
toc_object_entries_show_parents = "hide"
extlinks = {"arxiv": ("https://arxiv.org/abs/%s", "arXiv:%s")}

copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

sphinx_gallery_conf = {
    "examples_dirs": "../examples/gallery",
    "gallery_dirs": "gallery",
    "doc_module": ("skdpsynth",),
    "backreferences_dir": "reference/examples",
    "parallel": int(os.environ.get("GALLERY_JOBS", "2")),
    "matplotlib_animations": False,
    "remove_config_comments": True,
    "show_signature": False,
    "within_subsection_order": "FileNameSortKey",
    "show_memory": False,
    "write_computation_times": False,
}

html_theme = "pydata_sphinx_theme"
html_title = project
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sourcelink = False
html_theme_options = {
    "header_links_before_dropdown": 7,
    "navbar_align": "left",
    "show_prev_next": False,
    "footer_start": ["copyright"],
    "footer_end": [],
    "secondary_sidebar_items": ["page-toc"],
}
# Pages without neighbours to show, and one whose tables need the room.
html_sidebars = {"index": [], "getting_started": [], "choose": [], "results": []}
