"""numba's steps from a function to machine code, cut down to what kernels need (see ``compilation``).

The hooks are numba's: a compiler given as ``pipeline_class``, and subclasses of its dispatcher, library and lowering.
Kernels have no closures, no ``with``, no generators, nothing that is counted by references but constant arrays, and
their arguments are numbers and None: steps of numba that serve nothing else are left out.
"""

from __future__ import annotations

import copy
import operator
from typing import Any

import llvmlite.binding
from numba import _dynfunc, types
from numba.core import analysis, cgutils, codegen, compiler, ir, ir_utils, lowering, ssa, typed_passes, untyped_passes
from numba.core.ir_utils import get_definition, guard
from numba.core.registry import CPUDispatcher

# --- libraries ----------------------------------------------------------------------------------------------------


class _Library(codegen.JITCodeLibrary):
    """Links nothing before it has to."""

    def add_linking_library(self, library):
        self._linking_libraries.append(library)

    def _optimize_functions(self, module):
        """Everything is optimised once, in what it is linked into."""
        module.data_layout = self._codegen._data_layout


class PartLibrary(_Library):
    """The code of a kernel without that of what it calls; never machine code."""

    def finalize(self):
        self._raise_if_finalized()
        self._finalized = True

    def _get_module_for_linking(self):
        if self._shared_module is None:
            for function in self._final_module.functions:
                if not function.is_declaration and function.linkage == llvmlite.binding.Linkage.external:
                    function.linkage = "linkonce_odr"
            self._shared_module = self._final_module
        return self._shared_module

    def get_pointer_to_function(self, name):
        return 0


class EntryLibrary(_Library):
    """The code of a kernel and of all that it calls, directly or not, each once."""

    def finalize(self):
        found, waiting = {}, list(self._linking_libraries)
        while waiting:
            library = waiting.pop()
            if id(library) not in found:
                found[id(library)] = library
                if isinstance(library, PartLibrary):
                    waiting.extend(library._linking_libraries)
        self._linking_libraries = list(found.values())
        super().finalize()


# --- steps --------------------------------------------------------------------------------------------------------


def answer_none(state):
    """Decide branches on ``argument is None``, and drop what is not taken. numba alone drops it where the argument is
    None, but not where it is a number."""
    code, is_changed = state.func_ir, False
    for block in code.blocks.values():
        for statement in block.find_insts(ir.Assign):
            asked = statement.value
            if not (isinstance(asked, ir.Expr) and asked.op == "binop" and asked.fn in (operator.is_, operator.is_not)):
                continue
            is_changed = True
            left, right = (guard(get_definition, code, side) for side in (asked.lhs, asked.rhs))
            if not isinstance(left, ir.Arg) or not isinstance(right, ir.Const) or right.value is not None:
                continue
            if isinstance(state.args[left.index], types.Number):
                statement.value = ir.Const(asked.fn is operator.is_not, statement.loc)
                known = code._definitions[statement.target.name]
                known[known.index(asked)] = statement.value
    if is_changed:
        analysis.dead_branch_prune(code, state.args)


def name_values(state):
    """One name for each value (SSA), as inference needs."""
    state.func_ir = ssa.reconstruct_ssa(state.func_ir)
    state.func_ir._definitions = ir_utils.build_definitions(state.func_ir.blocks)


_answers: dict[Any, Any] = {}
"""What numba said of a builtin function, an operator or an intrinsic with arguments of certain types."""


def infer_types(state):
    """Type inference that asks numba once only what a builtin function makes of arguments of certain types."""
    context = state.typingctx
    state.typingctx = own = copy.copy(context)

    def resolve(function, arguments, keywords):
        if keywords or not isinstance(function, types.Function):
            return context.resolve_function_type(function, arguments, keywords)
        question = (function, tuple(arguments))
        if question not in _answers:
            _answers[question] = context.resolve_function_type(function, arguments, keywords)
        return _answers[question]

    own.resolve_function_type = resolve
    try:
        typed_passes.NopythonTypeInference().run_pass(state)
    finally:
        state.typingctx = context


def unname_values(state):
    """Back from one name for each value to variables."""
    state.func_ir = typed_passes.PreLowerStripPhis()._strip_phi_nodes(state.func_ir)
    state.func_ir._definitions = ir_utils.build_definitions(state.func_ir.blocks)


def end_lives(state):
    """Say where values end, if any of them is counted by references."""
    models = state.targetctx.data_model_manager
    if any(models[kind].contains_nrt_meminfo() for kind in set(state.typemap.values())):
        ir_utils.check_and_legalize_ir(state.func_ir, state.flags)


PLAIN_OPERATORS = frozenset(
    getattr(operator, name)
    for base in ("add", "sub", "mul", "truediv", "floordiv", "mod", "and_", "or_", "xor", "lshift", "rshift")
    for name in (base, "i" + base.removesuffix("_"))
) | {operator.lt, operator.le, operator.gt, operator.ge, operator.eq, operator.ne}


class Lower(lowering.Lower):
    """Lowering that does not try whether an operator has a special form for a literal: of these only powers do."""

    def alloca_lltype(self, name, lltype, datamodel=None):
        if self.context.enable_debuginfo:
            return super().alloca_lltype(name, lltype, datamodel)
        return cgutils.alloca_once(self.builder, lltype, name=name)  # without asking for its size

    def lower_binop(self, resty, expr, op):
        signature = self.fndesc.calltypes[expr]
        numbers = all(isinstance(kind, (types.Number, types.Boolean)) for kind in signature.args)
        function = self.context.typing_context.resolve_value_type(op)
        if op not in PLAIN_OPERATORS or not numbers or signature.args not in function._impl_keys:
            return super().lower_binop(resty, expr, op)
        values = [
            self.context.cast(self.builder, self.loadvar(side.name), self.typeof(side.name), kind)
            for side, kind in zip((expr.lhs, expr.rhs), signature.args, strict=True)
        ]
        made = self.context.get_function(function, signature)(self.builder, values)
        return self.context.cast(self.builder, made, signature.return_type, resty)


class _Lowering(typed_passes.NativeLowering):
    lowering_class = Lower


def lower(state):
    _Lowering().run_pass(state)


STEPS = (
    lambda state: untyped_passes.TranslateByteCode().run_pass(state),
    lambda state: untyped_passes.FixupArgs().run_pass(state),
    answer_none,
    name_values,
    infer_types,
    unname_values,
    end_lives,
    lower,
    lambda state: typed_passes.NoPythonBackend().run_pass(state),
)


class _Steps:
    """The steps in the place of numba's manager of passes."""

    pipeline_name = "kernel"

    def __init__(self):
        self.exec_times: dict[str, Any] = {}

    def run(self, state):
        for step in STEPS:
            step(state)


# --- compilers ----------------------------------------------------------------------------------------------------


class EntryCompiler(compiler.CompilerBase):
    """For what is called from Python or by address."""

    library_class: type[_Library] = EntryLibrary

    def define_pipelines(self):
        state = self.state
        state.library = self.library_class(state.targetctx.codegen(), state.func_id.func_qualname)
        state.library.enable_object_caching()
        return [_Steps()]


class PartCompiler(EntryCompiler):
    """For what is called by kernels."""

    library_class = PartLibrary

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.state.targetctx.get_executable = _no_executable  # the context is this compilation's own


def _no_executable(library, description, environment):
    """What numba knows a compiled function by; nothing calls it."""
    library.finalize()
    name = description.qualname.split(".")[-1]
    return _dynfunc.make_function(description.lookup_module(), name, "", 0, environment, (library,))


class Part(CPUDispatcher):
    """A kernel as kernels call it: compiled for types, not for the literals among its arguments."""

    def get_call_template(self, args, kws):
        return super().get_call_template(tuple(types.unliteral(kind) for kind in args), kws)


def part_of(function, options):
    """A kernel's part; ``options`` as of numba.njit."""
    wrappers = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True, "nopython": True, "boundscheck": None}
    return Part(function, targetoptions={**wrappers, **options}, pipeline_class=PartCompiler)
