"""Make the edits of suggested changes, with libcst, and judge them by trials.

A rule specifies a replacement; `suggestions` makes the edits, or explains why there are none.
`fake_kernel_registration` makes edits that a run suggests. `changes` lists what a change removes, and `judgement`
evaluates a trial of it.
"""
