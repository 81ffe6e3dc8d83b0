"""Make the edits of suggested changes, with libcst, and judge them by trials.

A rule specifies a replacement; `suggest` makes the edits, or explains why there are none. `fake_kernel` makes edits
that a run suggests. `changed` lists what a change removes, and `judgement` evaluates a trial of it.
"""
