"""What is private to torch: every such name that the worker touches stands in this folder, and nowhere else.

`differences` is the one table of what is not the same from one version of torch to the next.
"""
