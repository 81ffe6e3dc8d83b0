"""Rewriters: how each kind of hazard is rewritten, on libcst's tree.

Rules name them as text, because a check that shows no fix imports neither libcst nor a rewriter.
"""
