"""How the pages are built: `python -m sphinx -c docs -W --keep-going -n docs/pages docs/build`.

`-W` makes every warning an error: a link to a page, a heading or a file that is not there fails the build.
"""

project = "tcready"
author = "the tcready authors"
extensions = ["myst_parser"]

myst_heading_anchors = 3
smartquotes = False  # `--flag` must keep its two hyphens

html_theme = "furo"
html_title = "tcready"
html_copy_source = False
html_show_sphinx = False
