"""Compile the kernel for a device that need not be present, as its first launch does.

Arguments: compute capability, such as 90. Prints one line for each type and way of calling.
"""

import sys

import torch
import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from mothtrap.statistics.torch import multi_tensor

CASES = (
    (torch.float32, "fp32", True),
    (torch.bfloat16, "bf16", False),
    (torch.int64, "i64", True),
)
for dtype, name, tabled in CASES:
    fixed = {
        "KIND": multi_tensor.KINDS[dtype],
        "WIDE": tl.float32 if dtype.is_floating_point else tl.float64,
        "TABLED": tabled,
    }
    signature = {
        "table": "*i64" if tabled else f"*{name}",
        "out": "*fp64",
        "count": "i64",
        "span": "i32",
        **dict.fromkeys(fixed, "constexpr"),
    }
    source = ASTSource(fn=multi_tensor.kernel(), signature=signature, constexprs=fixed)
    options = {"num_warps": multi_tensor.WARPS, "enable_fp_fusion": True}
    done = triton.compile(source, target=GPUTarget("cuda", int(sys.argv[1]), 32), options=options)
    flushed = ".ftz" in done.asm["ptx"]  # would take the smallest numbers for zeros
    print(name, "table" if tabled else "one", "flushes" if flushed else "keeps", "denormals")
