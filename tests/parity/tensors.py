"""Reading and writing safetensors files with NumPy alone.

The format (huggingface.co/docs/safetensors): 8 bytes of little-endian header length, a JSON header
{name: {dtype, shape, data_offsets: [begin, end]}}, then the data; the offsets count from the end of the header.
"""
import json

import numpy

KINDS = {"F64": numpy.dtype("<f8"), "F32": numpy.dtype("<f4"), "F16": numpy.dtype("<f2"),
         "I64": numpy.dtype("<i8"), "I32": numpy.dtype("<i4")}
NAMES = {kind: name for name, kind in KINDS.items()}


def read(path):
    """{name: array} of a file; raises ValueError with the path when the file is not what it should be."""
    with open(path, "rb") as file:
        length = int.from_bytes(file.read(8), "little")
        header = json.loads(file.read(length))
        data = file.read()
    header.pop("__metadata__", None)
    arrays = {}
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        array = numpy.frombuffer(data[begin:end], KINDS[entry["dtype"]])
        if array.size != numpy.prod(entry["shape"], dtype=int):
            raise ValueError(f"{path}: {name} has {array.size} values, its shape says {entry['shape']}")
        arrays[name] = array.reshape(entry["shape"])
    return arrays


def write(path, arrays):
    """Writes {name: array}; float64 is stored as float32."""
    header, blocks, offset = {}, [], 0
    for name, array in arrays.items():
        array = numpy.ascontiguousarray(array, "<f4" if array.dtype.kind == "f" else "<i8")
        header[name] = {"dtype": NAMES[array.dtype], "shape": list(array.shape),
                        "data_offsets": [offset, offset + array.nbytes]}
        blocks.append(array.tobytes())
        offset += array.nbytes
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)  # the data starts at a multiple of 8
    with open(path, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text + b"".join(blocks))
