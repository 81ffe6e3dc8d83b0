"""Check many models, keep the results, and report on all of them.

`runner` is the only entry. `task` describes the work as values, `engine_choice` what an engine offers, and
`local_engine` is the engine of this machine. `cache_key` lists the inputs that a result depends on, `store` keeps
results in SQLite, `aggregate` describes all models together. Only `export` needs pyarrow.
"""
