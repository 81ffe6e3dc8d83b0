"""Many models in one report: read, run and kept, so that what did not change is not done again.

`course` is the one entry. `task` has the work as values and what carries it out, `engine` what an engine has to offer;
`local` is one. `ground` tells what a result rests on, `store` keeps it, `summary` says what holds of all models.
"""
