#!/usr/bin/python3
"""Writes a trace in Kineto's layout, of any size, for bench/trace_read.py: steps of a sharded model of 24 layers with
Python functions, operations with shapes, launches, flows, kernels on three streams, and collectives with their facts.

    generate_trace.py OUT [--megabytes 1024] [--rank 0]

Equal arguments give equal bytes. Bytes are spread over the sorts of events about as in a file of PyTorch's profiler.
"""
import argparse

LAYERS = 24
MATMUL = "nvjet_sm90_tst_128x256_64x4_1x2_h_bz_coopA_bias_TNN"
POINTWISE = ("void at::native::elementwise_kernel<128, 4, at::native::gpu_kernel_impl_nocast<at::native::BinaryFunctor<"
             "c10::BFloat16, c10::BFloat16, c10::BFloat16, at::native::binary_internal::MulFunctor<float> > >"
             "(at::TensorIteratorBase&, at::native::BinaryFunctor<c10::BFloat16, c10::BFloat16, c10::BFloat16, "
             "at::native::binary_internal::MulFunctor<float> > const&)::{lambda(int)#1}>(int, at::native::gpu_kernel_impl)")
GATHER = "ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)"

PYTHON = """  {
    "ph": "X", "cat": "python_function", "name": "torch/nn/modules/module.py(%d): _call_impl", "pid": 593, "tid": 593,
    "ts": %s, "dur": %s,
    "args": {
      "Python parent id": %d, "Python id": %d, "Ev Idx": %d
    }
  },
"""
OPERATION = """  {
    "ph": "X", "cat": "cpu_op", "name": "%s", "pid": 593, "tid": 593,
    "ts": %s, "dur": %s,
    "args": {
      "External id": %d,"Record function id": 0, "Concrete Inputs": ["", "", "", "1", "1"], "Input type": ["c10::BFloat16", "c10::BFloat16", "c10::BFloat16", "Scalar", "Scalar"], "Input Strides": [[1], [2048, 1], [1, 2048], [], []], "Input Dims": [[8192], [4096, 2048], [2048, 8192], [], []], "Ev Idx": %d
    }
  },
"""
REQUEST = """  {
    "ph": "X", "cat": "cpu_op", "name": "record_param_comms", "pid": 593, "tid": 593,
    "ts": %s, "dur": %s,
    "args": {
      "External id": %d,"Record function id": 0, "Collective name": "_allgather_base", "Process Group Description": "default_pg", "dtype": "BFloat16", "Rank": %d, "Out msg nelems": 33562624, "Process Group Name": "0", "Out split size": "[]", "In split size": "[]", "Process Group Ranks": "[0, 1]", "Group size": 2, "In msg nelems": 16781312, "Ev Idx": %d
    }
  },
"""
LAUNCH = """  {
    "ph": "X", "cat": "cuda_runtime", "name": "%s", "pid": 593, "tid": 593,
    "ts": %s, "dur": %s,
    "args": {
      "External id": %d, "cbid": 211, "correlation": %d
    }
  },
  {
    "ph": "s", "id": %d, "pid": 593, "tid": 593, "ts": %s,
    "cat": "ac2g", "name": "ac2g"
  },
"""
KERNEL = """  {
    "ph": "X", "cat": "kernel", "name": "%s", "pid": 0, "tid": %d,
    "ts": %s, "dur": %s,
    "args": {
      "External id": %d, "queued": 0, "device": 0, "context": 1, "stream": %d, "correlation": %d, "registers per thread": 32, "shared memory": 0, "blocks per SM": 7.757576, "warps per SM": 31.030302, "grid": [1024, 1, 1], "block": [128, 1, 1], "est. achieved occupancy %%": 48%s
    }
  },
  {
    "ph": "f", "id": %d, "pid": 0, "tid": %d, "ts": %s,
    "cat": "ac2g", "name": "ac2g", "bp": "e"
  },
"""
FACTS = (', "Collective name": "_allgather_base", "In msg nelems": 16781312, "Out msg nelems": 33562624, "Group size": 2, '
         '"dtype": "BFloat16", "In split size": "[]", "Out split size": "[]", "Process Group Name": "0", '
         '"Process Group Description": "default_pg", "Process Group Ranks": "[0, 1]", "Seq": %d')
RANGE = """  {
    "ph": "X", "cat": "user_annotation", "name": "%s", "pid": 593, "tid": 593,
    "ts": %s, "dur": %s,
    "args": {
      "External id": %d,"Record function id": 0, "Ev Idx": %d
    }
  },
"""
HEAD = """
  {
    "schemaVersion": 1,
    "deviceProperties": [
    {
      "id": 0, "name": "NVIDIA H200", "totalGlobalMem": 150109880320, "computeMajor": 9, "computeMinor": 0, "numSms": 132
    }
    ],
    "distributedInfo": {"backend": "nccl", "rank": %d, "world_size": 2, "nccl_version": "2.28.9"},
    "displayTimeUnit": "ms",
    "baseTimeNanoseconds": 1790857026000000000,
  "traceEvents": [
"""
TAIL = """  {
    "name": "process_name", "ph": "M", "ts": 4354026000000.001, "pid": 593, "tid": 0, "args": { "name": "python3" }
  }
  ]
}
"""


def us(nanoseconds):
    """Microseconds with three decimals, as Kineto writes them."""
    return f"{nanoseconds // 1000}.{nanoseconds % 1000:03d}"


class Writer:
    """Host and device clocks, and the numbers that go on."""

    def __init__(self, rank):
        self.rank = rank
        self.host = 4354026000000001
        self.ends = {7: self.host, 23: self.host, 27: self.host}
        self.number = 0

    def kernel(self, name, stream, duration, facts=""):
        """A launch and its kernel, which starts when its stream is free."""
        n = self.number = self.number + 1
        start = max(self.host + 5203, self.ends[stream] + 611)
        self.ends[stream] = start + duration
        text = LAUNCH % ("cudaLaunchKernel", us(self.host), us(4107), n, n, n, us(self.host))
        text += KERNEL % (name, stream, us(start), us(duration), n, stream, n, facts, n, stream, us(start))
        self.host += 5000
        return text

    def layer(self, step, layer):
        """All-gather of the next layer during this one's products."""
        n = self.number
        parts = [RANGE % (f"FSDP::all_gather (layers.{layer})", us(self.host), us(19000), n, n),
                 REQUEST % (us(self.host + 500), us(17000), n, self.rank, n)]
        self.host += 2000
        parts.append(self.kernel(GATHER, 23, 150000 + 37 * layer, FACTS % (step * LAYERS + layer)))
        for product in range(6):
            for depth in range(3):
                parts.append(PYTHON % (1700 + depth, us(self.host), us(30000 - depth), n, n + depth, n))
            parts.append(OPERATION % ("aten::linear", us(self.host + 700), us(21000), self.number + 1, n))
            parts.append(OPERATION % ("aten::addmm", us(self.host + 900), us(19000), self.number + 1, n))
            self.host += 1500
            parts.append(self.kernel(MATMUL, 7, 31000 + 101 * product))
            parts.append(OPERATION % ("aten::mul", us(self.host), us(9000), self.number + 1, n))
            self.host += 600
            parts.append(self.kernel(POINTWISE, 7, 6400 + layer))
        return parts

    def step(self, number):
        """One step's events."""
        begin = self.host
        parts = [part for layer in range(LAYERS) for part in self.layer(number, layer)]
        self.host = max(self.ends.values()) + 20000
        parts.append(RANGE % (f"ProfilerStep#{number}", us(begin), us(self.host - begin), 0, 0))
        return "".join(parts)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out")
    parser.add_argument("--megabytes", type=float, default=1024)
    parser.add_argument("--rank", type=int, default=0)
    arguments = parser.parse_args()
    writer, wanted, number = Writer(arguments.rank), arguments.megabytes * 2**20, 0
    with open(arguments.out, "w", encoding="ascii", newline="\n") as file:
        written = file.write(HEAD % arguments.rank)
        while written < wanted - len(TAIL):
            written += file.write(writer.step(number))
            number += 1
        file.write(TAIL)


if __name__ == "__main__":
    main()
