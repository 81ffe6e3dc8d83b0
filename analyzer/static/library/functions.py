"""Library functions without source: those that need the engine for their result, and the rest."""

from __future__ import annotations

from types import MappingProxyType
from typing import Literal

from tcready.static.domain import constant_text
from tcready.static.domain import facts as F  # noqa: N812 - the facts are many and their names common words
from tcready.static.domain.scope import positional
from tcready.static.domain.values import (
    FLOATS,
    NONE,
    UNKNOWN,
    Class,
    Const,
    External,
    ExternalInstance,
    Function,
    Instance,
    Mapping,
    Module,
    Plain,
    Sequence,
    Tensor,
    Unknown,
    Value,
    join,
    lift,
    likely,
    members_of,
    options,
    partial_of,
    prefer,
    tensor_of,
)
from tcready.static.interp.interfaces import CallSite, Engine
from tcready.static.library import argparse_options, builtins, constructors, iteration, package_versions
from tcready.static.library import semantics as K  # noqa: N812
from tcready.static.library.builtins import Handler
from tcready.static.library.dtype_tests import limits_of

OF_CHECKPOINT = frozenset({"use_reentrant", "context_fn", "preserve_rng_state"})
"""Keywords of `torch.utils.checkpoint` that it does not pass on."""

SET_ANYWHERE = frozenset({"HOME", "PATH", "PWD", "USER", "SHELL", "LANG"})
"""Variables that an environment has without anybody's setting them."""
OF_WRAPPING = ("torch.nn.utils.", "torch.ao.", "torch.quantization.", "torch.distributed.")
"""The prefixes of functions that take a module, change how it uses its weights or where it runs, and return it."""


def call(engine: Engine, name: str, site: CallSite) -> Value | None:
    """Return the result of the external function `name`; None if nothing is known of it."""
    if name in K.PROPERTIES and site.first("fget") is not None:
        given = (site.first("fget"), site.first("fset", 1))
        return partial_of(K.PROPERTY, tuple((i, v) for i, v in enumerate(given) if v is not None))
    if "." not in name:
        return builtins.call(engine, name, site)
    answer = engine.operations.while_tracing(name)
    if answer is not None:
        return answer
    handler = HANDLERS.get(name)
    result = handler(engine, site) if handler is not None else None
    if result is not None:
        return result
    root, _, method = name.partition(".")
    if name in K.CONTAINERS:
        return _container(engine, name, site)
    if root in constant_text.BUILTIN_TYPES:
        result = constant_text.type_method(root, method, site.args)
        return constant_text.constant(result) if root == "str" and not engine.untraced else result
    if name.startswith(("einops.", "einx.")):
        return K.einops_call(name, site.args)
    if name.startswith("torch.ops."):
        namespace, _, operator = name.removeprefix("torch.ops.").partition(".")
        return Tensor(sure=engine.program.registers_fake(f"{namespace}::{operator.partition('.')[0]}"))
    return _known(engine, name, site)


def _known(engine: Engine, name: str, site: CallSite) -> Value | None:
    """Return the result that is known from the name alone."""
    result = engine.operations.manager(name, site.args)
    if isinstance(result, ExternalInstance) and engine.untraced and engine.operations.context_of(name) is not None:
        return _made(engine, name, site)
    if result is not None:
        return result
    if name.rpartition(".")[0] == "random":
        result = _draw(engine, name)
    else:
        result = K.external_call(name, site.args, site.keywords)
    if name.startswith("torch."):
        result = engine.operations.better(name, site.args, site.keywords, result)
    if engine.untraced and name.startswith(OF_WRAPPING) and (result is None or isinstance(result, Unknown)):
        wrapped = site.first("module")
        if wrapped is not None and any(map(engine.classes.is_module, options(wrapped))):
            for option in options(wrapped):
                if isinstance(option, ExternalInstance) and option.ident:
                    constructors.unwrap_parameters(engine, option)
            return wrapped
    if engine.untraced:  # drawn before the compiled call: one number, the same in every call
        result = K.drawn_before(result)
    if engine.untraced and name.startswith("numpy.") and (result == K.ARRAY or isinstance(result, Plain)):
        return K.numpy_built(name, result, site.args)
    if isinstance(result, ExternalInstance) and K.is_module_class(result.name) and not result.ident:
        made = _made(engine, result.name, site)
        constructors.fill(engine, made, site)
        return made
    return result


def _draw(engine: Engine, name: str) -> Value:
    """Return the result of a function of `random`."""
    if name in ("random.seed", "random.setstate", "random.shuffle"):
        return NONE
    captured = engine.operations.captures_draw(name) and name != "random.sample"  # which gives what it is given
    return Plain("float" if name == "random.random" else None, "drawn" if captured else "random")


def _made(engine: Engine, name: str, site: CallSite) -> ExternalInstance:
    """Return an object of an external class, apart from those made elsewhere."""
    return ExternalInstance(name, engine.heap.ident(name, site.node, site.frame.context, escaping=engine.untraced > 0))


def _container(engine: Engine, name: str, site: CallSite) -> Value:
    made = _made(engine, name, site)
    engine.containers.fill_container(made, name, site.args, site.node)
    return made


def _found_in_text(name: str) -> Handler:
    return lambda _engine, site: constant_text.match(name, site.args)


def _grad_enabled(engine: Engine, _site: CallSite) -> Value | None:
    return None if engine.training is None else prefer(Const(engine.training), Plain("bool"))


def _read_environment(_engine: Engine, site: CallSite) -> Value | None:
    """Return the result of `os.environ.get`: the default, as the variable is usually not set."""
    name = likely(site.args[0]) if site.args else UNKNOWN
    if isinstance(name, Const) and name.value in SET_ANYWHERE:
        return None
    default = site.first("default", 1)
    return prefer(NONE if default is None else default, Plain("str"))


def _spec(engine: Engine, site: CallSite) -> Value | None:
    """Return the result of `find_spec` for a package: None for one that is not installed with torch."""
    name = likely(site.args[0]) if site.args else UNKNOWN
    if not isinstance(name, Const) or not isinstance(name.value, str):
        return None
    return NONE if engine.names.is_missing(name.value) else None


def _process_state(usual: bool) -> Handler:
    """Return the state of the process: an installed package checks it in passing, a project because it sets it."""

    def handler(engine: Engine, site: CallSite) -> Value:
        flag = Plain("bool")
        return prefer(Const(usual), flag) if engine.forks.pass_by(site.frame) is None else flag

    return handler


def _is_tensor(_engine: Engine, site: CallSite) -> Value | None:
    return lift(_whether_tensor, site.args[0]) if site.args else None


def _whether_tensor(value: Value) -> Value:
    kinds = {isinstance(option, Tensor) for option in options(value)}
    if len(kinds) > 1 or any(isinstance(option, (Unknown, External)) for option in options(value)):
        return Plain("bool", "call")
    return Const(kinds.pop())


def _calls_first(engine: Engine, site: CallSite) -> Value | None:
    """`checkpoint(function, *args)`."""
    if not site.args:
        return None
    passed_on = {name: value for name, value in site.keywords.items() if name not in OF_CHECKPOINT}
    with site.frame.on(site.frame.path.inside("checkpoint")):
        return engine.calls.call_each(site.args[0], site.giving(site.args[1:], passed_on)) or UNKNOWN


def _map_tree(at: int) -> Handler:
    """`tree_map(function, tree)`, where the function is the argument `at`: each leaf of containers in containers."""

    def handler(engine: Engine, site: CallSite) -> Value | None:
        if len(site.args) <= at + 1:
            return None

        def leaves(value: Value) -> Value:
            if isinstance(value, Sequence):
                items = None if value.items is None else tuple(map(leaves, value.items))
                return Sequence(value.kind, items, UNKNOWN if items is not None else leaves(value.element))
            if isinstance(value, Mapping):
                entries = tuple((key, leaves(v)) for key, v in value.entries)
                return Mapping(entries, None if value.element is None else leaves(value.element))
            return engine.calls.call_each(site.args[at], site.giving((value,))) or UNKNOWN

        return join(*map(leaves, options(site.args[at + 1])))

    return handler


def _chain_map(_engine: Engine, site: CallSite) -> Value | None:
    """`ChainMap(first, second)`: the entries of all, those of the first before others."""
    if not all(isinstance(v, Mapping) for v in site.args):
        return None
    tables = [v for v in site.args if isinstance(v, Mapping)]
    entries = {key: value for table in reversed(tables) for key, value in table.entries}
    rest = [table.element for table in tables if table.element is not None]
    return Mapping(tuple(entries.items()), join(*rest) if rest else None)


def _register_parametrization(engine: Engine, site: CallSite) -> Value | None:
    """`register_parametrization(module, name, made)`: who reads that tensor of the module is given what `made` makes."""
    module, name, made = (site.first(key, i) for i, key in enumerate(("module", "tensor_name", "parametrization")))
    if not engine.untraced or module is None or made is None or not isinstance(name, Const):
        return module
    for option in options(module):
        if isinstance(option, (Instance, ExternalInstance)) and option.ident:
            thing = engine.heap[option]
            known = thing.attributes.get(K.PARAMETRISED)
            entries = dict(known.entries) if isinstance(known, Mapping) else {}
            before = entries.get(name.value)
            steps = (*(members_of(before) if isinstance(before, Sequence) else ()), made)
            entries[name.value] = Sequence("list", steps, UNKNOWN)
            thing.update(K.PARAMETRISED, Mapping(tuple(entries.items()), None), strong=True)
    return module


def _cond(engine: Engine, site: CallSite) -> Value | None:
    """`torch.cond(pred, true_fn, false_fn, operands)`."""
    if len(site.args) < 3:
        return None
    operands = site.args[3] if len(site.args) > 3 else None
    inner = site.giving(members_of(operands) if isinstance(operands, Sequence) else ())
    return join(*(engine.calls.call_each(function, inner) or UNKNOWN for function in site.args[1:3]))


def _called_as_module(engine: Engine, site: CallSite) -> Value | None:
    """`nn.Module.__call__(module, ...)`: the hooks and `forward`, whatever the module's own `__call__` does."""
    if not site.args:
        return None
    given = site.giving(site.args[1:], site.keywords)
    found = [
        engine.calls.call_each(engine.attributes.member(v, "forward", site.frame), given)
        if isinstance(v, Instance)
        else engine.calls.call_each(v, given)
        for v in options(site.args[0])
    ]
    return join(*(v for v in found if v is not None)) if any(v is not None for v in found) else None


def _functional_call(engine: Engine, site: CallSite) -> Value | None:
    """`functional_call(module, parameters, args, kwargs)`."""
    module, args, named = site.first("module"), site.first("args", 2), site.first("kwargs", 3)
    if module is None:
        return None
    if isinstance(args, Sequence) and args.items is not None:
        given = args.items
    else:
        given = () if args is None or args == NONE else (args,)
    entries = named.entries if isinstance(named, Mapping) else ()
    return engine.calls.call_each(module, site.giving(given, {str(k): v for k, v in entries}))


def _calls_with_primals(engine: Engine, site: CallSite) -> Value | None:
    """`torch.func.vjp(function, *primals)`, and `jvp(function, primals, tangents)`: the function is called with these."""
    if len(site.args) < 2:
        return None
    primals = site.args[1]
    given = primals.items if isinstance(primals, Sequence) and primals.items is not None else (primals,)
    engine.calls.call_each(site.args[0], site.giving(given))
    return None


def _first(_engine: Engine, site: CallSite) -> Value | None:
    """Return the first argument: these wrap it and behave like it."""
    return site.args[0] if site.args else None


def _parameters(engine: Engine, value: Value) -> tuple[list[str], list[str]] | None:
    """Return the names that a function or class takes by position and by keyword alone, those it is bound to left out."""
    if isinstance(value, Class):
        value = next(iter(engine.classes.initialisers(engine.classes.mro(value.info))), UNKNOWN)
        skipped = 1
    elif isinstance(value, Function):
        skipped = int(value.bound is not None)
    if not isinstance(value, Function):
        return None
    spec = value.info.node.args
    return [arg.arg for arg, _ in positional(spec)][skipped:], [arg.arg for arg in spec.kwonlyargs]


def _signature(engine: Engine, site: CallSite) -> Value | None:
    """`inspect.signature(f)`, of which `parameters` is asked."""
    names = _parameters(engine, site.args[0]) if site.args else None
    if names is None:
        return None
    parameters = Mapping(tuple((name, Plain("Parameter")) for each in names for name in each), None)
    return _record(engine, "inspect.Signature", site, parameters=parameters)


def _full_arg_spec(engine: Engine, site: CallSite) -> Value | None:
    names = _parameters(engine, site.args[0]) if site.args else None
    if names is None:
        return None
    by_position, by_keyword = (Sequence("list", tuple(map(Const, each)), UNKNOWN) for each in names)
    return _record(engine, "inspect.FullArgSpec", site, args=by_position, kwonlyargs=by_keyword)


def _record(engine: Engine, name: str, site: CallSite, **attributes: Value) -> Value:
    ident = engine.heap.ident(name, site.node, site.args[0], escaping=False)
    made = ExternalInstance(name, ident)
    for attribute, value in attributes.items():
        engine.heap[made].update(attribute, value, strong=True)
    return made


def _copy(*, deep: bool) -> Handler:
    def handler(engine: Engine, site: CallSite) -> Value | None:
        if not site.args:
            return None
        return lift(
            lambda value: join(
                *(engine.objects.copy_object(option, site.node, site.frame, deep=deep) for option in options(value))
            ),
            site.args[0],
        )

    return handler


def _bound_by_hand(_engine: Engine, site: CallSite) -> Value | None:
    """`types.MethodType(function, owner)`."""
    if len(site.args) != 2:
        return None
    owner = likely(site.args[1])
    found = [v.bound_to(owner) for v in options(site.args[0]) if isinstance(v, Function)]
    return join(*found) if found and isinstance(owner, (Instance, Class)) else None


def _import_module(engine: Engine, site: CallSite) -> Value | None:
    """Return the module of `importlib.import_module` if the source decides the name."""
    name, package = (
        likely(value) if value is not None else None for value in (site.first("name"), site.first("package", 1))
    )
    if not isinstance(name, Const) or not isinstance(name.value, str):
        return None
    full = name.value
    if full.startswith("."):
        if not isinstance(package, Const) or not isinstance(package.value, str):
            return None
        level = len(full) - len(full.lstrip("."))
        parts = package.value.split(".")
        full = ".".join([*parts[: len(parts) - level + 1], full.lstrip(".")])
    found = engine.program.module(full)
    return External(full) if found is None else Module(found)


def _script(kind: str, *, loaded: bool = False) -> Handler:
    def handler(engine: Engine, site: CallSite) -> Value:
        function = bool(site.args) and not any(map(engine.classes.is_module, options(site.args[0])))
        return site.args[0] if function and not loaded else ExternalInstance(kind)

    return handler


def _check(position: int) -> Handler:
    """`torch._check` and its kin: the message that is given at `position` has to be a function that is traced."""

    def handler(engine: Engine, site: CallSite) -> Value:
        message = site.first("message", position)
        for option in options(NONE if message is None else likely(message)):
            made = _made_of(engine, option)
            if made is not None:
                engine.emit(F.CheckMessage(engine.where(site.frame), site.node, made))
                break
        return NONE

    return handler


def _made_of(engine: Engine, message: Value) -> Literal["elsewhere", "of objects"] | None:
    if isinstance(message, (Const, Plain)):
        return "elsewhere" if message != NONE and _is_text(message) else None
    if not isinstance(message, Function):
        return None
    if "<locals>" not in message.info.symbol:
        return "elsewhere"
    around = engine.functions.enclosed_values(message)
    objects = any(isinstance(v, (Instance, ExternalInstance)) for value in around for v in options(value))
    return "of objects" if objects or any(map(tensor_of, around)) else None


def _is_text(value: Const | Plain) -> bool:
    return isinstance(value.value, str) if isinstance(value, Const) else value.kind == "str"


HANDLERS: MappingProxyType[str, Handler] = MappingProxyType(
    {
        **{f"torch.{name}": _check(1) for name in K.CHECKS},
        "torch._check_with": _check(2),
        "torch.jit.isinstance": builtins.HANDLERS["isinstance"],
        "importlib.util.find_spec": _spec,
        **dict.fromkeys(("os.environ.get", "os.getenv"), _read_environment),
        **iteration.HANDLERS,
        argparse_options.PARSER: argparse_options.parser,
        **package_versions.HANDLERS,
        **{f"re.{name}": _found_in_text(name) for name in ("findall", "search", "match", "fullmatch")},
        "inspect.signature": _signature,
        "importlib.import_module": _import_module,
        "torch.nn.utils.parametrize.register_parametrization": _register_parametrization,
        "types.MethodType": _bound_by_hand,
        "types.MappingProxyType": lambda _engine, site: site.args[0] if site.args else None,
        "collections.ChainMap": _chain_map,
        "torch.utils._pytree.tree_map": _map_tree(0),
        "torch.utils._pytree.tree_map_only": _map_tree(1),
        "torch.get_default_dtype": lambda _engine, _site: Plain("dtype", types=FLOATS),
        "torch.finfo": lambda _engine, site: limits_of(site.first("type") or UNKNOWN),
        "torch.nn.Transformer.generate_square_subsequent_mask": lambda _engine, _site: Tensor("float"),
        "type.__call__": builtins.made_by_type,
        "object.__getattribute__": builtins.HANDLERS["getattr"],
        **dict.fromkeys(("object.__setattr__", "torch.nn.Module.__setattr__"), builtins.set_plainly),
        "inspect.isfunction": builtins.is_function,
        "inspect.isclass": builtins.is_class,
        "inspect.getmembers": builtins.got_members,
        "inspect.getfullargspec": _full_arg_spec,
        "torch.is_grad_enabled": _grad_enabled,
        "torch.is_tensor": _is_tensor,
        **{name: _process_state(usual) for name, usual in K.OF_PROCESS.items()},
        **dict.fromkeys(
            (
                "torch.utils.checkpoint.checkpoint",
                "torch.utils.checkpoint.checkpoint_sequential",
                "torch.cuda.amp.custom_fwd",
            ),
            _calls_first,
        ),
        **dict.fromkeys(("torch.cond", "torch.ops.higher_order.cond"), _cond),
        **dict.fromkeys(("torch.vmap", "torch.compile", "torch.autograd.Variable"), _first),
        **{f"torch.func.{name}": _first for name in ("vmap", "grad", "jacrev", "jacfwd", "hessian")},
        **{f"torch.func.{name}": _calls_with_primals for name in ("vjp", "jvp")},
        **{
            f"torch.autograd.functional.{name}": _calls_with_primals
            for name in ("jacobian", "hessian", "vjp", "jvp", "hvp", "vhp")
        },
        "torch.nn.Module.__call__": _called_as_module,
        **dict.fromkeys(("torch.func.functional_call", "torch.nn.utils.stateless.functional_call"), _functional_call),
        "torch.jit.annotate": lambda _engine, site: site.args[1] if len(site.args) > 1 else None,
        "copy.copy": _copy(deep=False),
        "copy.deepcopy": _copy(deep=True),
        "torch.jit.script": _script("torch.jit.ScriptModule"),
        "torch.jit.freeze": _script("torch.jit.ScriptModule"),
        "torch.jit.trace": _script("torch.jit.TracedModule"),
        "torch.jit.load": _script("torch.jit.ScriptModule", loaded=True),
    }
)
