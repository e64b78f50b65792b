import inspect
import math
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from encoder import training
from encoder.training import TrainConfig, adamw, fit, load_checkpoint, share, update, warmup_cosine

ROOT = Path(__file__).parents[2]


def make_model(dropout: float = 0.0) -> nn.Sequential:
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(3, 8), nn.GELU(), nn.Dropout(dropout), nn.LayerNorm(8), nn.Linear(8, 2))


def batches(step: int) -> dict[str, torch.Tensor]:
    x = torch.randn(12, 3, generator=torch.Generator().manual_seed(step))
    return {"x": x, "y": (x[:, 0] > x[:, 1]).long()}


def loss_fn(model: nn.Module, batch: dict[str, torch.Tensor]) -> torch.Tensor:
    return F.cross_entropy(model(batch["x"]), batch["y"])


TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2"]

# The processes that the tests start train on the same task as the tests themselves.
TASK = """
import os, signal
from pathlib import Path
import torch
from torch import nn
from torch.nn import functional as F
from encoder.training import TrainConfig, fit
""" + "\n".join(map(inspect.getsource, (make_model, batches, loss_fn)))


def weights_of(model: nn.Module) -> dict[str, torch.Tensor]:
    return {name: tensor.detach().clone() for name, tensor in model.state_dict().items()}


def same(a: dict[str, torch.Tensor], b: dict[str, torch.Tensor]) -> bool:
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


def run(script: str, *command: str, env: dict[str, str] | None = None) -> subprocess.CompletedProcess:
    clean = {k: v for k, v in os.environ.items() if k not in ("WORLD_SIZE", "RANK", "LOCAL_RANK")}
    clean |= {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", **(env or {})}
    return subprocess.run([*command, script], env=clean, capture_output=True, text=True, timeout=300)


def test_the_rate_climbs_a_line_and_descends_half_a_cosine():
    rates = [warmup_cosine(step, 10, 4, peak=2.0, floor=0.5) for step in range(11)]
    assert rates[:4] == [0.5, 1.0, 1.5, 2.0]
    assert rates[4] == 2.0  # the cosine starts at the peak
    assert rates[7] == pytest.approx(1.25)  # half-way down
    assert rates[5] == pytest.approx(0.5 + 1.5 * (1 + math.cos(math.pi / 6)) / 2)
    assert rates[10] == pytest.approx(0.5)
    assert warmup_cosine(0, 10, 0) == 1.0
    assert warmup_cosine(99, 10, 4, floor=0.5) == 0.5  # beyond the end it stays on the floor


def test_fit_passes_the_rate_of_the_schedule_and_the_limit_to_every_step(monkeypatch):
    seen = []
    monkeypatch.setattr(training, "update", lambda optimizer, scaler, loss, lr, clip: seen.append((lr, clip)))
    fit(make_model(), loss_fn, batches, TrainConfig(5, lr=0.1, warmup=2, min_lr=0.01, clip=0.7, quiet=True))
    assert seen == [(warmup_cosine(step, 5, 2, 0.1, 0.01), 0.7) for step in range(5)]


@pytest.mark.parametrize("scale", [1.0, 1024.0])
@pytest.mark.parametrize(("clip", "norm"), [(None, 5.0), (10.0, 5.0), (2.0, 2.0)])
def test_clipping_limits_the_norm_of_the_unscaled_gradient(clip, norm, scale):
    weight = nn.Parameter(torch.zeros(2))
    optimizer = torch.optim.SGD([weight], lr=99.0)
    scaler = torch.amp.GradScaler("cpu", init_scale=scale)
    update(optimizer, scaler, weight @ torch.tensor([3.0, 4.0]), lr=0.5, clip=clip)
    assert weight.detach().norm().item() == pytest.approx(0.5 * norm, rel=1e-5)
    assert (weight < 0).all()


def test_one_update_is_adamw_on_matrices_and_adam_on_vectors():
    ours, reference = make_model(), make_model()
    fit(ours, loss_fn, batches, TrainConfig(3, lr=0.01, warmup=1, weight_decay=0.5, clip=None, quiet=True))
    matrices = [p for p in reference.parameters() if p.dim() == 2]
    vectors = [p for p in reference.parameters() if p.dim() == 1]
    optimizers = [torch.optim.AdamW(matrices, weight_decay=0.5), torch.optim.AdamW(vectors, weight_decay=0.0)]
    for step in range(3):
        reference.zero_grad()
        loss_fn(reference, batches(step)).backward()
        for optimizer in optimizers:
            optimizer.param_groups[0]["lr"] = warmup_cosine(step, 3, 1, 0.01)
            optimizer.step()
    torch.testing.assert_close(weights_of(ours), weights_of(reference))


def test_frozen_parameters_stay_and_the_rest_learn():
    model = make_model()
    model[0].requires_grad_(False)
    before = weights_of(model)
    losses = fit(model, loss_fn, batches, TrainConfig(60, lr=0.02, warmup=5, quiet=True))
    after = weights_of(model)
    assert torch.equal(before["0.weight"], after["0.weight"]) and torch.equal(before["0.bias"], after["0.bias"])
    assert not torch.equal(before["4.weight"], after["4.weight"])
    assert sum(losses[-5:]) < 0.5 * sum(losses[:5])


@pytest.mark.parametrize("amp", [torch.bfloat16, torch.float16])
def test_mixed_precision_multiplies_in_half_and_keeps_the_weights_in_float32(amp):
    model, seen = make_model(), []
    model[0].register_forward_hook(lambda module, inputs, output: seen.append(output.dtype))
    losses = fit(model, loss_fn, batches, TrainConfig(60, lr=0.02, warmup=5, amp=amp, quiet=True))
    assert set(seen) == {amp}
    assert {p.dtype for p in model.parameters()} == {torch.float32}
    assert sum(losses[-5:]) < 0.6 * sum(losses[:5])


def test_compiled_training_gives_the_same_losses():
    plain = fit(make_model(), loss_fn, batches, TrainConfig(4, warmup=1, quiet=True))
    with_compile = fit(make_model(), loss_fn, batches, TrainConfig(4, warmup=1, compile=True, quiet=True))
    assert with_compile == pytest.approx(plain, rel=1e-4)  # equal too where it falls back


def test_without_a_compiler_training_goes_on_and_says_so(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(TASK + "print(fit(make_model(), loss_fn, batches, TrainConfig(2, compile=True, quiet=True)))\n")
    env = {"CXX": "/nowhere/g++", "TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "cache")}
    done = run(str(script), sys.executable, env=env)
    assert done.returncode == 0, done.stderr
    assert "torch.compile does not work here" in done.stderr and "training uncompiled" in done.stderr
    assert done.stdout.count(",") == 1  # two losses


def test_a_run_killed_half_way_resumes_to_the_same_bits(tmp_path):
    script, saved = tmp_path / "script.py", tmp_path / "run.pt"
    script.write_text(
        TASK
        + f"""
def die(step, loss):
    if step == 7:
        os.kill(os.getpid(), signal.SIGKILL)

fit(make_model(0.5), loss_fn, batches, TrainConfig(12, save_every=3, quiet=True), Path({str(saved)!r}), die)
"""
    )
    assert run(str(script), sys.executable).returncode == -signal.SIGKILL
    assert torch.load(saved)["step"] == 6

    config = TrainConfig(12, save_every=3, quiet=True)
    whole, resumed = make_model(0.5), make_model(0.5)
    losses = fit(whole, loss_fn, batches, config)
    torch.manual_seed(99)  # the resumed run must not depend on where this process's generator stands
    asked = []
    again = fit(resumed, loss_fn, lambda step: asked.append(step) or batches(step), config, saved)
    assert asked == list(range(6, 12))
    assert again == losses
    assert same(weights_of(whole), weights_of(resumed))


def test_a_finished_run_is_returned_not_repeated(tmp_path):
    config, saved = TrainConfig(5, quiet=True), tmp_path / "new" / "run.pt"
    losses = fit(make_model(), loss_fn, batches, config, saved, on_step=lambda step, loss: step == 2)
    model = make_model()
    assert fit(model, loss_fn, batches, config, saved) == losses and len(losses) == 3
    assert same(weights_of(model), torch.load(saved)["model"])


def test_a_failed_write_leaves_the_old_checkpoint(tmp_path, monkeypatch):
    config, saved = TrainConfig(4, save_every=2, quiet=True), tmp_path / "run.pt"
    real, calls = torch.save, []

    def full_disk(state, file):
        calls.append(state["step"])
        if state["step"] == 4:
            file.write(b"half")
            raise OSError("no space left")
        real(state, file)

    monkeypatch.setattr(torch, "save", full_disk)
    with pytest.raises(OSError, match="no space"):
        fit(make_model(), loss_fn, batches, config, saved)
    assert calls == [2, 4] and torch.load(saved)["step"] == 2


def test_two_processes_end_with_the_weights_of_one_on_the_joint_batch(tmp_path):
    script, saved = tmp_path / "script.py", tmp_path / "two.pt"
    script.write_text(
        TASK
        + f"""
model = make_model()
torch.manual_seed(int(os.environ["RANK"]))
for p in model.parameters():
    p.data += int(os.environ["RANK"])  # only rank 0 holds the right start: the others must be given it
losses = fit(model, loss_fn, batches, TrainConfig(8, warmup=2, save_every=5), Path({str(saved)!r}))
torch.save((model.state_dict(), losses), {str(tmp_path)!r} + f"/rank{{os.environ['RANK']}}.pt")
"""
    )
    done = run(str(script), *TORCHRUN)
    assert done.returncode == 0, done.stderr
    one = make_model()
    losses = fit(one, loss_fn, batches, TrainConfig(8, warmup=2, quiet=True))
    (first, first_losses), (second, second_losses) = (torch.load(tmp_path / f"rank{rank}.pt") for rank in (0, 1))
    assert same(first, second) and first_losses == second_losses == pytest.approx(losses, rel=1e-5)
    torch.testing.assert_close(first, weights_of(one), rtol=1e-5, atol=1e-6)
    state = torch.load(saved)
    assert len(state["random"]) == 2 and state["step"] == 8
    with pytest.raises(ValueError, match=r"'processes': 1.*'processes': 2"):
        fit(make_model(), loss_fn, batches, TrainConfig(8, warmup=2, quiet=True), saved)


def test_two_processes_drop_other_units_and_resume_each_from_its_own_generator(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        TASK
        + f"""
def fail(step, loss):
    if step == 4:
        raise KeyboardInterrupt

whole, config, saved = make_model(0.5), TrainConfig(7, save_every=3, quiet=True), Path({str(tmp_path)!r}) / "run.pt"
losses = fit(whole, loss_fn, batches, config)
drawn = torch.rand(4)  # where the generator stands
try:
    fit(make_model(0.5), loss_fn, batches, config, saved, fail)
except KeyboardInterrupt:
    pass
resumed = make_model(0.5)
torch.manual_seed(99)
again = fit(resumed, loss_fn, batches, config, saved)
result = {{"whole": whole.state_dict(), "resumed": resumed.state_dict(), "drawn": drawn}}
result |= {{"losses": losses, "again": again}}
torch.save(result, {str(tmp_path)!r} + f"/rank{{os.environ['RANK']}}.pt")
"""
    )
    done = run(str(script), *TORCHRUN)
    assert done.returncode == 0, done.stderr
    first, second = (torch.load(tmp_path / f"rank{rank}.pt") for rank in (0, 1))
    for result in (first, second):
        assert result["again"] == result["losses"] and same(result["whole"], result["resumed"])
    assert same(first["whole"], second["whole"])
    assert not torch.equal(first["drawn"], second["drawn"])


def test_the_shares_of_all_processes_are_the_joint_batch():
    batch = {"x": torch.arange(12).view(6, 2), "more": (torch.arange(6), [torch.arange(6) * 10])}
    parts = [share(batch, rank, 3, torch.device("cpu")) for rank in range(3)]
    assert torch.equal(torch.cat([part["x"] for part in parts]), batch["x"])
    assert torch.equal(parts[1]["more"][1][0], torch.tensor([20, 30]))
    assert isinstance(parts[0]["more"], tuple) and isinstance(parts[0]["more"][1], list)
    with pytest.raises(ValueError, match=r"evenly over 4 processes, got a shape of \(6, 2\)"):
        share(batch, 0, 4, torch.device("cpu"))


def test_a_bar_is_drawn_unless_quiet(capsys):
    fit(make_model(), loss_fn, batches, TrainConfig(2))
    assert "2/2" in capsys.readouterr().err
    fit(make_model(), loss_fn, batches, TrainConfig(2, quiet=True))
    assert capsys.readouterr().err == ""


def test_a_loss_that_is_not_a_number_stops_the_run():
    with pytest.raises(FloatingPointError, match="finite loss, got nan at step 0"):
        fit(make_model(), lambda model, batch: loss_fn(model, batch) * math.nan, batches, TrainConfig(2, quiet=True))


def test_a_truncated_or_foreign_checkpoint_is_refused_in_one_sentence(tmp_path):
    config, saved = TrainConfig(2, quiet=True), tmp_path / "run.pt"
    fit(make_model(), loss_fn, batches, config, saved)
    whole = saved.read_bytes()
    torch.save({"weights": torch.ones(2)}, tmp_path / "foreign.pt")
    foreign = (tmp_path / "foreign.pt").read_bytes()
    for content in (whole[: len(whole) // 2], b"", b"not a checkpoint", foreign):
        saved.write_bytes(content)
        with pytest.raises(ValueError, match=f"expected a whole checkpoint of `fit` in {re.escape(str(saved))}, got a"):
            fit(make_model(), loss_fn, batches, config, saved)
    saved.write_bytes(whole)
    with pytest.raises(ValueError, match=r"expected 0.weight of shape \(8, 4\) in .*, got \(8, 3\)"):
        load_checkpoint(saved, nn.Sequential(nn.Linear(4, 8)), "")
    with pytest.raises(ValueError, match=r"'lr': 0\.5"):
        fit(make_model(), loss_fn, batches, TrainConfig(2, lr=0.5, quiet=True), saved)


def test_the_optimizer_decays_matrices_only():
    matrices, vectors = adamw(make_model(), 0.3).param_groups
    assert matrices["weight_decay"] == 0.3 and {p.dim() for p in matrices["params"]} == {2}
    assert vectors["weight_decay"] == 0 and {p.dim() for p in vectors["params"]} == {1}
    assert len(matrices["params"]) == 2 and len(vectors["params"]) == 4


@pytest.mark.parametrize("wrong", [{"steps": -1}, {"steps": 1, "warmup": -1}, {"steps": 1, "save_every": 0}])
def test_a_recipe_that_cannot_be_is_told_of(wrong):
    with pytest.raises(ValueError, match="expected steps and warmup from 0 on and save_every from 1 on, got steps="):
        TrainConfig(**wrong)


@pytest.mark.parametrize("part", [None, 3, torch.tensor(3)])
def test_a_batch_is_made_of_tensors_with_rows(part):
    with pytest.raises(TypeError, match="a batch holds tensors of rows, in tuples, lists or dicts, got"):
        fit(
            nn.Linear(2, 1), lambda m, b: m(b[0]).mean(), lambda s: (torch.ones(2, 2), part), TrainConfig(1, quiet=True)
        )


def test_the_path_of_a_checkpoint_may_be_a_string(tmp_path):
    path = tmp_path / "run.pt"
    fit(nn.Linear(2, 1), lambda m, b: m(b).mean(), lambda s: torch.ones(2, 2), TrainConfig(1, quiet=True), str(path))
    assert path.exists()
