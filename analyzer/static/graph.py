"""The call graph of one analysis (networkx): what is reached from where, and what a module runs."""

from __future__ import annotations

import networkx as nx
from tcready.static.interp import Interpreter


class CallGraph:
    """Contexts of the interpreter as nodes, calls as edges (networkx)."""

    def __init__(self, interpreter: Interpreter) -> None:
        self._contexts = interpreter.contexts
        self._graph: nx.DiGraph[int] = nx.DiGraph()
        self._graph.add_nodes_from(range(len(interpreter.contexts)))
        self._graph.add_edges_from((a, b) for a, b in interpreter.edges if a >= 0)

    def chains(self, entry: int) -> dict[int, tuple[str, ...]]:
        """For every context reached from `entry`: the symbols on a shortest way there, outermost first."""
        found: dict[int, tuple[str, ...]] = {}
        for target, path in nx.single_source_shortest_path(self._graph, entry).items():
            symbols = (self._contexts[n].symbol for n in path if self._contexts[n].function is not None)
            found[target] = tuple(dict.fromkeys(symbols))
        return found

    def run_by(self, ident: int) -> set[int]:
        """Contexts that run as part of one module instance: its methods and the helpers they call, down to,
        not into, the methods of other modules."""
        seen = {c.number for c in self._contexts if c.module == ident}
        pending = list(seen)
        while pending:
            for following in self._graph.successors(pending.pop()):
                owner = self._contexts[following].module
                if following not in seen and owner in (None, ident):
                    seen.add(following)
                    pending.append(following)
        return seen
