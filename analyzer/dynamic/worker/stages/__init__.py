"""The stages of a run, one in each file; `pipeline` has their order.

No stage imports another, and only `pipeline` (and `main`, for `parse`) imports stages. A test checks both.
"""
