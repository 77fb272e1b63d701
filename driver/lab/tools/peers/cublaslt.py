"""cuBLASLt through ctypes, in PyTorch's context and stream: its first proposal and the best of 16.

    lt = Product(a, b, out, m, n, k)                    # C = A B^T; a [m, k], b [n, k], out [m, n] by rows
    lt = Product(a, b, out, m, n, k, a_columns=True)    # a is stored [k, m]; b_columns: b is stored [k, n]
    lt.first(); lt.best()

cuBLASLt's matrices are by columns, so the product is computed as C^T = B A^T. Workspaces are 32 MiB, as
PyTorch's. The best is found once for each shape and type, by time, over the first 16 proposals.
"""

import ctypes
import functools

import torch

# cudaDataType, cublasComputeType_t (cuBLAS Library, chapter "cuBLAS Datatypes Reference").
DATA = {torch.float32: 0, torch.float16: 2, torch.int8: 3, torch.int32: 10, torch.bfloat16: 14,
        torch.float8_e4m3fn: 28}
COMPUTE = {torch.int8: 72, torch.float32: 77}
COMPUTE_F32 = 68
TRANSPOSE_A, TRANSPOSE_B, FAST_ACCUMULATION = 3, 4, 25
BATCH_COUNT, BATCH_OFFSET = 5, 6
WORKSPACE_ATTRIBUTE, WORKSPACE_BYTES, PROPOSALS = 1, 32 << 20, 16


class Proposal(ctypes.Structure):
    """cublasLtMatmulHeuristicResult_t."""
    _fields_ = [("algorithm", ctypes.c_uint64 * 8), ("workspace", ctypes.c_size_t),
                ("status", ctypes.c_int), ("waves", ctypes.c_float), ("reserved", ctypes.c_int * 4)]


@functools.cache
def library():
    """The library that PyTorch has loaded, and a handle."""
    lib = ctypes.CDLL(f"libcublasLt.so.{torch.version.cuda.split('.')[0]}")
    handle = ctypes.c_void_p()
    status = lib.cublasLtCreate(ctypes.byref(handle))
    if status:
        raise RuntimeError(f"cublasLtCreate failed with status {status}")
    return lib, handle


@functools.cache
def workspace():
    """Memory that all products share."""
    return torch.empty(WORKSPACE_BYTES, dtype=torch.uint8, device="cuda")


def call(name, *args):
    """Calls a function of the library."""
    status = getattr(library()[0], name)(*args)
    if status:
        raise RuntimeError(f"{name} failed with status {status}")


def attribute(setter, handle, code, value):
    """Sets an attribute of an opaque handle."""
    call(setter, handle, code, ctypes.byref(value), ctypes.sizeof(value))


class Product:
    """One product of a shape, with its buffers."""

    chosen = {}

    def __init__(self, a, b, out, m, n, k, a_columns=False, b_columns=False, batch=1):
        self.tensors = (b, a, out)
        self.scale = ctypes.c_int if a.dtype == torch.int8 else ctypes.c_float
        self.descriptor = self.describe(a, a_columns, b_columns)
        left = self.layout(b, n, k, batch) if b_columns else self.layout(b, k, n, batch)
        right = self.layout(a, m, k, batch) if a_columns else self.layout(a, k, m, batch)
        self.layouts = (left, right, self.layout(out, n, m, batch))
        self.key = (m, n, k, batch, a.dtype, out.dtype, a_columns, b_columns)
        self.proposals = self.chosen.get(self.key) or self.propose()

    @staticmethod
    def describe(a, a_columns, b_columns):
        """The operation: which operands are transposed, and in which type sums are kept."""
        handle = ctypes.c_void_p()
        compute = COMPUTE.get(a.dtype, COMPUTE_F32)
        scale = DATA[torch.int32 if a.dtype == torch.int8 else torch.float32]
        call("cublasLtMatmulDescCreate", ctypes.byref(handle), compute, scale)
        setter = "cublasLtMatmulDescSetAttribute"
        attribute(setter, handle, TRANSPOSE_A, ctypes.c_int(0 if b_columns else 1))
        attribute(setter, handle, TRANSPOSE_B, ctypes.c_int(1 if a_columns else 0))
        if a.dtype == torch.float8_e4m3fn:
            attribute(setter, handle, FAST_ACCUMULATION, ctypes.c_int8(1))
        return handle

    @staticmethod
    def layout(tensor, rows, columns, batch):
        """A matrix by columns without gaps; a batch of them lies one behind the other."""
        handle = ctypes.c_void_p()
        call("cublasLtMatrixLayoutCreate", ctypes.byref(handle), DATA[tensor.dtype],
             ctypes.c_uint64(rows), ctypes.c_uint64(columns), ctypes.c_int64(rows))
        if batch > 1:
            setter = "cublasLtMatrixLayoutSetAttribute"
            attribute(setter, handle, BATCH_COUNT, ctypes.c_int(batch))
            attribute(setter, handle, BATCH_OFFSET, ctypes.c_int64(rows * columns))
        return handle

    def propose(self):
        """The library's proposals, its first one first."""
        preference = ctypes.c_void_p()
        call("cublasLtMatmulPreferenceCreate", ctypes.byref(preference))
        attribute("cublasLtMatmulPreferenceSetAttribute", preference, WORKSPACE_ATTRIBUTE,
                  ctypes.c_size_t(WORKSPACE_BYTES))
        found, count = (Proposal * PROPOSALS)(), ctypes.c_int()
        left, right, out = self.layouts
        call("cublasLtMatmulAlgoGetHeuristic", library()[1], self.descriptor, left, right, out, out,
             preference, PROPOSALS, found, ctypes.byref(count))
        if not count.value:
            raise RuntimeError(f"cuBLASLt has no algorithm for {self.key}")
        proposals = list(found[: count.value])
        times = [self.timed(proposal) for proposal in proposals]
        self.chosen[self.key] = (proposals[0], proposals[times.index(min(times))])
        return self.chosen[self.key]

    def timed(self, proposal, launches=5):
        """Milliseconds of some launches; infinite where the algorithm refuses."""
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        try:
            self.run(proposal)
            start.record()
            for _ in range(launches):
                self.run(proposal)
            end.record()
        except RuntimeError:
            return float("inf")
        end.synchronize()
        return start.elapsed_time(end)

    def run(self, proposal):
        """Enqueues the product in PyTorch's current stream."""
        one, none = self.scale(1), self.scale(0)
        left, right, out = (ctypes.c_void_p(t.data_ptr()) for t in self.tensors)
        lays = self.layouts
        call("cublasLtMatmul", library()[1], self.descriptor, ctypes.byref(one), left, lays[0], right, lays[1],
             ctypes.byref(none), out, lays[2], out, lays[2], proposal.algorithm,
             ctypes.c_void_p(workspace().data_ptr()), ctypes.c_size_t(WORKSPACE_BYTES),
             ctypes.c_void_p(torch.cuda.current_stream().cuda_stream))

    def first(self):
        """Runs the library's first proposal."""
        self.run(self.proposals[0])

    def best(self):
        """Runs the fastest of its proposals."""
        self.run(self.proposals[1])
