"""What comes over the wire is plain or refused."""

import json
import signal
import socket
import time

import pytest
import safetensors.torch
import torch

from autograder import wire


def refuse(node):
    raise wire.WireError("unknown")


@pytest.fixture
def pair():
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield ours, theirs


def frame(header: bytes, blob: bytes = b"") -> bytes:
    return wire.HEADER.pack(len(header), len(blob)) + header + blob


@pytest.mark.parametrize(
    "data",
    [
        wire.HEADER.pack(wire.MAX_JSON + 1, 0),
        wire.HEADER.pack(2, 2**32 - 1) + b"{}",
        frame(b"[" * 100_000),
        frame(b"\xff\xfe"),
        frame(b"[]"),
        frame(b"{}", b"not safetensors"),
        frame(b"{}", (8 << 40).to_bytes(8, "little") + b"{}"),
        frame(b'{"a": ' + b"9" * 10_000 + b"}"),
    ],
)
def test_a_malformed_frame_is_refused(pair, data: bytes):
    ours, theirs = pair
    theirs.sendall(data)
    theirs.close()
    with pytest.raises(wire.WireError):
        wire.receive(ours, time.monotonic() + 5)


@pytest.mark.parametrize(
    "node",
    [
        [],
        {},
        [1],
        ["list", {}],
        ["dict", [1]],
        ["dict", [["list"], 1]],
        ["set", ["list"]],
        ["array", 0],
        ["array", -1],
        ["array", "0"],
        ["dtype", "load"],
        ["dtype", "nn"],
        ["device", "nowhere"],
        ["slice", 1, 2, 3, 4],
        ["module", 1, {}],
        json.loads("[" * 40 + '"list"' + "]" * 40),
    ],
)
def test_a_malformed_value_is_refused(node):
    with pytest.raises(wire.WireError):
        wire.decode(node, [], refuse)


@pytest.mark.parametrize(
    "entry",
    [
        {"dtype": "F32", "shape": [2], "data_offsets": [0, 4]},
        {"dtype": "F32", "shape": [2], "data_offsets": [-8, 0]},
        {"dtype": "F32", "shape": [1 << 40], "data_offsets": [0, 4 << 40]},
        {"dtype": "F32", "shape": [-1, -2], "data_offsets": [0, 8]},
        {"dtype": "OBJECT", "shape": [1], "data_offsets": [0, 8]},
        {"dtype": "F32", "shape": "2", "data_offsets": [0, 8]},
        {"dtype": "F32", "shape": [0, 10**40], "data_offsets": [0, 0]},
        {"dtype": "F32", "shape": [1] * 65, "data_offsets": [0, 4]},
        {"dtype": "F32"},
        [],
    ],
)
def test_a_tensor_that_does_not_fit_its_data_is_refused(pair, entry):
    text = json.dumps({"0": entry}).encode()
    ours, theirs = pair
    theirs.sendall(frame(b"{}", len(text).to_bytes(8, "little") + text + bytes(8)))
    with pytest.raises(wire.WireError):
        wire.receive(ours, time.monotonic() + 5)


def test_the_blob_is_a_safetensors_file(pair):
    tensors = [torch.rand(2, 3).mT, torch.tensor(True), torch.rand(3).bfloat16(), torch.zeros(0, 2), torch.tensor(5)]
    tensors.append(tensors[0][0])  # in the memory of another
    wire.send(pair[0], {}, tensors)
    header, blob = wire.HEADER.unpack(pair[1].recv(wire.HEADER.size))
    pair[1].recv(header)
    loaded = safetensors.torch.load(pair[1].recv(blob))
    assert all(torch.equal(loaded[str(i)], t) and loaded[str(i)].dtype == t.dtype for i, t in enumerate(tensors))
    wire.send(pair[0], {"a": 1}, tensors)
    message, received = wire.receive(pair[1], time.monotonic() + 5)
    assert message == {"a": 1} and all(map(torch.equal, received, tensors))


def test_a_slow_sender_cannot_stretch_the_deadline(pair):
    ours, theirs = pair
    theirs.sendall(b"\x00")
    with pytest.raises(TimeoutError):
        wire.receive(ours, time.monotonic() + 0.05)


def test_a_sender_that_never_stops_cannot_stretch_it_either(pair):
    ours, theirs = pair
    theirs.sendall(frame(b"{}"))
    with pytest.raises(TimeoutError):
        wire.receive(ours, time.monotonic() - 1)


def test_keys_made_to_collide_can_be_interrupted():
    node = ["set", *(i * (2**61 - 1) for i in range(1, 100_000))]  # the hash of each is 0
    old = signal.signal(signal.SIGALRM, lambda *_: (_ for _ in ()).throw(TimeoutError))
    signal.setitimer(signal.ITIMER_REAL, 0.3)
    try:
        start = time.monotonic()
        with pytest.raises(TimeoutError):
            wire.decode(node, [], refuse)
        assert time.monotonic() - start < 3
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, old)


@pytest.mark.parametrize(
    "tensor",
    [
        torch.ones(2).to_sparse(),
        torch.ones(2, device="meta"),
        torch.ones(2, dtype=torch.complex128),
        torch.ones([1] * 65),
    ],
)
def test_a_tensor_that_cannot_be_passed_is_named(pair, tensor):
    with pytest.raises(wire.NotPlain, match="cannot be passed"):
        wire.send(pair[0], {}, [tensor])


def test_a_value_too_large_to_pass_is_refused_before_it_is_copied(pair):
    huge = torch.empty(1).expand(wire.MAX_BLOB)  # as large as it says, without the memory
    with pytest.raises(wire.NotPlain, match="too large"):
        wire.send(pair[0], {}, [huge])


def test_values_come_back_as_exact_builtins():
    class Odd(int):
        pass

    tensors: list[torch.Tensor] = []
    decoded = wire.decode(wire.encode([Odd(3), True, float("nan")], tensors, refuse), tensors, refuse)
    assert [type(value) for value in decoded] == [int, bool, float]
