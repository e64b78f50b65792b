"""Frames between the grader and the sandbox: a JSON header and a blob in the safetensors format, never pickle.

The far side of the grader's socket is hostile. So a frame has a size limit, a value has a depth limit, and decoding
gives exact builtins and tensors or raises WireError; nothing that arrives can choose a class. Both sides use this file.

A value is a JSON scalar, or a list that starts with a tag: ["list", …], ["dict", [key, value], …], ["tensor", i].
Tags that need context (functions, modules) are made and read by a hook that each side brings.
"""

import json
import math
import struct
from collections.abc import Callable
from socket import socket
from time import monotonic
from typing import Any

import numpy as np
import torch

HEADER = struct.Struct(">II")
MAX_JSON = 8 << 20
MAX_BLOB = 512 << 20
MAX_DEPTH = 32
MAX_DIMENSIONS = 64  # torch takes hours over a tensor with a hundred thousand
# fmt: off
NAMES = {
    torch.bool: "BOOL", torch.uint8: "U8", torch.int8: "I8", torch.int16: "I16", torch.int32: "I32", torch.int64: "I64",
    torch.float16: "F16", torch.bfloat16: "BF16", torch.float32: "F32", torch.float64: "F64", torch.complex64: "C64",
}
# fmt: on
DTYPES = {name: dtype for dtype, name in NAMES.items()}
SCALARS = (type(None), bool, int, float, str)


class WireError(Exception):
    """What came is not a frame, or not a value, of this protocol."""


class NotPlain(Exception):
    """A value that has no form on the wire."""


def send(sock: socket, message: dict, tensors: list[torch.Tensor]) -> None:
    """Send one frame. A timeout set on the socket bounds the whole of it."""
    header = json.dumps(message).encode()
    for t in tensors:
        if t.layout is not torch.strided or t.is_meta or t.dtype not in NAMES or t.ndim > MAX_DIMENSIONS:
            kind = f"{t.ndim} dimensions, {t.dtype}, {t.layout}, on {t.device}"
            raise NotPlain(f"a tensor of this kind cannot be passed: {kind}")
    size = len(header) + sum(t.nbytes for t in tensors)
    if len(header) > MAX_JSON or size > MAX_BLOB:
        raise NotPlain(f"a value of {size >> 20} MB is too large to pass")
    index, parts = _as_safetensors(tensors) if tensors else (b"", [])
    sock.sendall(HEADER.pack(len(header), len(index) + sum(map(len, parts))) + header + index)
    for part in parts:
        sock.sendall(part)


def _as_safetensors(tensors: list[torch.Tensor]) -> tuple[bytes, list[memoryview]]:
    """The index of a safetensors file and its data, uncopied; the widest types first, so that all are aligned."""
    index, parts, offset = {}, [], 0
    for i in sorted(range(len(tensors)), key=lambda i: -tensors[i].element_size()):
        tensor = tensors[i].detach().cpu().contiguous()
        end = offset + tensor.nbytes
        index[str(i)] = {"dtype": NAMES[tensor.dtype], "shape": list(tensor.shape), "data_offsets": [offset, end]}
        parts.append(memoryview(tensor.reshape(-1).view(torch.uint8).numpy()))
        offset = end
    text = json.dumps(index).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text, parts


def receive(sock: socket, deadline: float = math.inf) -> tuple[dict, list[torch.Tensor]]:
    """Receive one frame before `deadline` (of time.monotonic), or raise EOFError, TimeoutError or WireError."""
    header_size, blob_size = HEADER.unpack(_exactly(sock, HEADER.size, deadline))
    if header_size > MAX_JSON or blob_size > MAX_BLOB + MAX_JSON:  # the blob names its tensors, too
        raise WireError("a frame over the size limit came")
    header, blob = _exactly(sock, header_size, deadline), _exactly(sock, blob_size, deadline)
    try:
        message = json.loads(header)
        tensors = _from_safetensors(blob) if blob else []
    except (ValueError, RecursionError, KeyError, TypeError, AttributeError, RuntimeError) as error:
        raise WireError(f"a frame that cannot be read came: {type(error).__name__}") from None
    if type(message) is not dict:
        raise WireError("a frame without a message came")
    return message, tensors


def _from_safetensors(blob: bytearray) -> list[torch.Tensor]:
    """The tensors of a safetensors file, in its memory; anything odd raises."""
    size = int.from_bytes(blob[:8], "little")
    start = 8 + size
    entries = json.loads(blob[8:start]) if size <= MAX_JSON and start <= len(blob) else {}
    tensors = []
    for i in range(len(entries)):
        entry = entries[str(i)]
        dtype, shape, (begin, end) = DTYPES[entry["dtype"]], [index(n) for n in entry["shape"]], entry["data_offsets"]
        if len(shape) > MAX_DIMENSIONS:
            raise ValueError("a tensor has too many dimensions")
        offset, count = start + index(begin), math.prod(shape)
        if index(end) - begin != count * dtype.itemsize or start + end > len(blob):
            raise ValueError("a tensor does not fit its data")
        flat = torch.frombuffer(blob, dtype=dtype, count=count, offset=offset) if count else torch.empty(0, dtype=dtype)
        tensors.append(flat.view(shape))
    if not tensors:
        raise ValueError("a blob without tensors")
    return tensors


def _exactly(sock: socket, size: int, deadline: float) -> bytearray:
    data = bytearray(size)
    view = memoryview(data)
    while view:
        if deadline < math.inf:
            remaining = deadline - monotonic()
            if remaining <= 0:  # also when more is waiting: a flood has no end
                raise TimeoutError
            sock.settimeout(remaining)
        count = sock.recv_into(view)
        if not count:
            raise EOFError("the other side has ended")
        view = view[count:]
    return data


def encode(value: Any, tensors: list, other: Callable[[Any], list], depth: int = 0) -> Any:
    """The wire form of a value; its tensors are appended to `tensors`. `other` gives the form of anything not plain."""
    if depth > MAX_DEPTH:
        raise NotPlain("a value nested too deeply to pass")
    if isinstance(value, (bool, np.bool_)):
        return bool(value)
    if value is None:
        return None
    for kind in (int, float, str):
        if isinstance(value, kind):
            return kind(value)
    if isinstance(value, np.generic):
        return encode(value.item(), tensors, other, depth + 1)
    if isinstance(value, (list, tuple)):
        tag = "list" if isinstance(value, list) else "tuple"
        return [tag, *(encode(item, tensors, other, depth + 1) for item in value)]
    if isinstance(value, (set, frozenset)):
        return ["set", *(encode(item, tensors, other, depth + 1) for item in value)]
    if isinstance(value, dict):
        return ["dict", *([encode(part, tensors, other, depth + 1) for part in pair] for pair in value.items())]
    if isinstance(value, np.ndarray):
        return ["array", _append(tensors, torch.from_numpy(np.ascontiguousarray(value)))]
    if isinstance(value, torch.dtype | torch.device):
        return [type(value).__name__, str(value).removeprefix("torch.")]
    if isinstance(value, slice):
        return ["slice", *(encode(v, tensors, other, depth + 1) for v in (value.start, value.stop, value.step))]
    return other(value)


def _append(tensors: list, tensor: torch.Tensor) -> int:
    tensors.append(tensor)
    return len(tensors) - 1


def decode(node: Any, tensors: list[torch.Tensor], other: Callable[[list], Any], depth: int = 0) -> Any:
    """The value of a wire form; `other` reads the tags that need context. Raises WireError on anything malformed."""
    if type(node) in SCALARS:
        return node
    if depth > MAX_DEPTH or type(node) is not list or not node or type(node[0]) is not str:
        raise WireError("a malformed value came")
    tag, *rest = node
    try:
        match tag:
            case "list" | "tuple":
                kind = {"list": list, "tuple": tuple}[tag]
                return kind([decode(item, tensors, other, depth + 1) for item in rest])
            case "set":  # item by item: keys made to collide take hours, and only between items can a signal stop it
                return {decode(item, tensors, other, depth + 1) for item in rest}
            case "dict":
                pairs = [[decode(part, tensors, other, depth + 1) for part in pair] for pair in rest]
                return {key: value for key, value in pairs}  # a pair of the wrong length raises
            case "array":
                return tensors[index(rest[0])].numpy()
            case "dtype":
                return _only(getattr(torch, rest[0], None), torch.dtype)
            case "device":
                return torch.device(rest[0])
            case "slice":
                return slice(*(decode(item, tensors, other, depth + 1) for item in rest))
    except (TypeError, ValueError, IndexError, RuntimeError) as error:
        raise WireError(f"a malformed {tag} came: {type(error).__name__}") from None
    return other(node)


def index(value: Any) -> int:
    if type(value) is not int or value < 0:
        raise ValueError("not an index")
    return value


def _only(value: Any, kind: type) -> Any:
    if not isinstance(value, kind):
        raise ValueError(f"not a {kind.__name__}")
    return value
