"""The static pass: sources to findings, without torch, and without importing or executing what it reads.

`driver` is the entry for one result, `session` for repeated reading as an editor does it. A target becomes units (a
file, a name); `frontend.index` and `frontend.module_search` find the sources; the engine interprets every function
that is reachable from a `forward` and emits facts; rules make claims of facts, and `diagnostics.diagnose` makes
findings of claims. `diagnostics.break_effect` predicts what a break does to the functions around it.

- The result of a unit depends only on the unit, the options and the files that were read. So units are analyzed in
  any process, and cached: an entry is valid while every file that was opened has the same contents, and every module
  that was looked for is found in the same place, or still missing. The key includes the sizes and times of tcready's
  own sources. An option that decides results is a field of `ReadOptions`, and so part of the key; those of
  `ReportOptions` filter later.
- There are two parsers. `ast` reads everything reachable, fourteen times as fast as libcst. libcst reads only the
  function around a finding with a suggested change, so that the diff keeps every comment and space.
- The files are layers, in the order that `tests/static/test_layers.py` lists: none imports one above it.
- Facts about torch come from `tables/`, which `benchmarks/torch_tables.py` derives; nothing there is typed by hand.
"""
