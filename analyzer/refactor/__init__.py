"""Make the edits of suggested changes, with libcst, and judge them by trials.

A rule says what to replace; `suggest` makes the edits, or says why there are none. `fake_kernel` makes edits that a
run suggests. `changed` says what a change removes, and `judgement` what a trial shows of it.
"""
