"""The stages of a run, one a file; `pipeline` has their order.

No stage imports another, and nothing but `pipeline` (and `main`, for `parse`) imports a stage. A test checks both.
"""
