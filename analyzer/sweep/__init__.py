"""Check many models, keep the results, and report on all of them.

`course` is the only entry. `task` describes the work as values, `engine` what an engine offers, and `local` is the
engine of this machine. `ground` lists the inputs that a result depends on, `store` keeps results in SQLite, `summary`
describes all models together. Only `export` needs pyarrow.
"""
