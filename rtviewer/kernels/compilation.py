"""How kernels are compiled: by numba, with less work for the same machine code.

By itself numba makes machine code of every function, with wrappers for calls from Python and C, and copies what it
optimised into each caller, where it is optimised again. Most kernels are called by kernels only. Here those, called
parts, end as LLVM code that is linked, once each, into the kernels that Python calls; machine code is made of these
alone, and the disk cache holds these alone. Steps of numba that find nothing to do in kernels are left out: closures,
object mode, arrays, ``with``, literal loops.

All of it goes through the hooks that numba has for it: a compiler class given as ``pipeline_class``, and subclasses of
its libraries and of its lowering. A numba where they do not fit is not used in this way: ``FITS`` is False then, and
kernels are compiled as numba does by itself, with the same results, in about twice the time. A test tells.
"""

from __future__ import annotations

import copy
import functools
import operator
from collections.abc import Callable
from typing import Any

import llvmlite.binding
import numba
from numba import _dynfunc, types
from numba.core import codegen, compiler, lowering, typed_passes, untyped_passes
from numba.core.compiler_machinery import PassManager, register_pass
from numba.core.dispatcher import Dispatcher
from numba.core.registry import CPUDispatcher


class _Linking(codegen.JITCodeLibrary):
    """Keeps what it is to be linked with until it is needed."""

    def add_linking_library(self, library):
        self._linking_libraries.append(library)


class PartLibrary(_Linking):
    """The code of a kernel without that of what it calls; never made machine code."""

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


class EntryLibrary(_Linking):
    """The code of a kernel and of all that it calls, directly or not."""

    def finalize(self):
        found, waiting = {}, self._linking_libraries
        while waiting:
            library = waiting.pop()
            if id(library) not in found:
                found[id(library)] = library
                if isinstance(library, PartLibrary):
                    waiting.extend(library._linking_libraries)
        self._linking_libraries = list(found.values())
        super().finalize()


# --- numba's steps ------------------------------------------------------------------------------------------------

PLAIN_OPERATORS = frozenset(
    getattr(operator, name)
    for base in ("add", "sub", "mul", "truediv", "floordiv", "mod", "and_", "or_", "xor", "lshift", "rshift")
    for name in (base, "i" + base.removesuffix("_"))
) | {operator.lt, operator.le, operator.gt, operator.ge, operator.eq, operator.ne}


class Lower(lowering.Lower):
    """Lowering that asks once only how an operator on numbers is done; powers by literals it leaves to numba."""

    def lower_binop(self, resty, expr, op):
        signature = self.fndesc.calltypes[expr]
        if op not in PLAIN_OPERATORS or not all(isinstance(kind, (types.Number, types.Boolean)) for kind in signature.args):
            return super().lower_binop(resty, expr, op)
        context, builder = self.context, self.builder
        values = [
            context.cast(builder, self.loadvar(side.name), self.typeof(side.name), kind)
            for side, kind in zip((expr.lhs, expr.rhs), signature.args, strict=True)
        ]
        function = context.typing_context.resolve_value_type(op)
        if signature.args not in function._impl_keys:
            function.get_call_type(context.typing_context, signature.args, {})
        made = context.get_function(function, signature)(builder, values)
        return context.cast(builder, made, signature.return_type, resty)


_answers: dict[Any, Any] = {}
"""What numba said of a builtin function, an operator or an intrinsic and the types of its arguments."""


@register_pass(mutates_CFG=True, analysis_only=False)
class KernelInference(typed_passes.NopythonTypeInference):
    """Type inference that asks once only which types a function makes of which."""

    _name = "kernel_inference"

    def run_pass(self, state):
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
            return super().run_pass(state)
        finally:
            state.typingctx = context


@register_pass(mutates_CFG=True, analysis_only=False)
class KernelLowering(typed_passes.NativeLowering):
    _name = "kernel_lowering"

    @property
    def lowering_class(self):
        return Lower


STEPS = (
    untyped_passes.TranslateByteCode,
    untyped_passes.FixupArgs,
    untyped_passes.IRProcessing,
    untyped_passes.RewriteSemanticConstants,
    untyped_passes.DeadBranchPrune,
    untyped_passes.GenericRewrites,
    untyped_passes.ReconstructSSA,
    KernelInference,
    typed_passes.PreLowerStripPhis,
    typed_passes.IRLegalization,
    typed_passes.AnnotateTypes,
    KernelLowering,
    typed_passes.NoPythonBackend,
)


class EntryCompiler(compiler.CompilerBase):
    """For what is called from Python or by address."""

    library_class: type[_Linking] = EntryLibrary

    def define_pipelines(self):
        state = self.state
        state.library = self.library_class(state.targetctx.codegen(), state.func_id.func_qualname)
        state.library.enable_object_caching()
        steps = PassManager("kernel")
        for step in STEPS:
            steps.add_pass(step, step.__name__)
        steps.finalize()
        return [steps]


class PartCompiler(EntryCompiler):
    """For what is called by kernels."""

    library_class = PartLibrary

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.state.targetctx.get_executable = _no_executable  # the context is this compilation's own


def _no_executable(library, description, environment):
    """What numba knows a compiled function by; not to be called."""
    library.finalize()
    name = description.qualname.split(".")[-1]
    return _dynfunc.make_function(description.lookup_module(), name, "", 0, environment, (library,))


class Part(CPUDispatcher):
    """A kernel as kernels call it: compiled for types, not for the literals among its arguments."""

    def get_call_template(self, args, kws):
        return super().get_call_template(tuple(types.unliteral(kind) for kind in args), kws)


class Kernel:
    """A kernel: called from kernels its ``part`` is used, called from Python its ``entry``."""

    def __init__(self, function: Callable[..., Any], options: dict[str, Any]):
        functools.update_wrapper(self, function)
        self.py_func = function
        self._options = options
        only_part = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True, "nopython": True, "boundscheck": None}
        self.part = Part(function, targetoptions={**options, **only_part}, pipeline_class=PartCompiler)
        self._numba_type_ = types.Dispatcher(self.part)

    @functools.cached_property
    def entry(self) -> Dispatcher:
        return numba.njit(
            self.py_func, pipeline_class=EntryCompiler, no_cfunc_wrapper=True, cache=True, **self._options
        )

    def __call__(self, *arguments):
        return self.entry(*arguments)


def kernel(function: Callable[..., Any], **options: Any) -> Any:
    if numba.config.DISABLE_JIT:
        return function
    return Kernel(function, {"nogil": True, "error_model": "numpy", **options})
