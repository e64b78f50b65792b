"""One training loop: warm-up and cosine, clipping, mixed precision, compile, resume, many processes. Chapter 06.

A step depends on the weights, the optimizer, the generators and its own number, on nothing else: the batch is
`batches(step)` and the rate is `warmup_cosine(step, …)`. A checkpoint of these four therefore continues bit for bit.
"""

import atexit
import math
import os
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.amp import GradScaler
from torch.nn.parallel import DistributedDataParallel
from torch.optim import AdamW, Optimizer
from tqdm import tqdm


@dataclass(frozen=True)
class TrainConfig:
    steps: int
    lr: float = 1e-3
    warmup: int = 50
    min_lr: float = 0.0
    weight_decay: float = 0.01
    clip: float | None = 1.0  # largest norm of the gradient; None: no limit
    amp: torch.dtype | None = None  # torch.bfloat16 or torch.float16
    compile: bool = False
    save_every: int = 100
    quiet: bool = False  # no progress bar

    def __post_init__(self) -> None:
        if self.steps < 0 or self.warmup < 0 or self.save_every < 1:
            got = f"steps={self.steps}, warmup={self.warmup} and save_every={self.save_every}"
            raise ValueError(f"expected steps and warmup from 0 on and save_every from 1 on, got {got}")


def warmup_cosine(step: int, steps: int, warmup: int, peak: float = 1.0, floor: float = 0.0) -> float:
    """The learning rate of step 0, 1, … steps − 1: a line up to the peak, then half a cosine down towards the floor.

    peak · (step + 1) / warmup                        while step < warmup
    floor + (peak − floor) · (1 + cos(π · p)) / 2     afterwards, p = (step − warmup) / (steps − warmup)

    Loshchilov and Hutter (2017), without restarts.
    """
    if step < warmup:
        return peak * (step + 1) / warmup
    progress = min(1.0, (step - warmup) / max(1, steps - warmup))
    return floor + (peak - floor) * (1 + math.cos(math.pi * progress)) / 2


def adamw(model: nn.Module, weight_decay: float) -> AdamW:
    """Matrices decay; biases and LayerNorm's scales do not, since a scale near 0 switches its feature off."""
    matrices = [p for p in model.parameters() if p.requires_grad and p.dim() > 1]
    vectors = [p for p in model.parameters() if p.requires_grad and p.dim() <= 1]
    return AdamW([{"params": matrices, "weight_decay": weight_decay}, {"params": vectors, "weight_decay": 0}])


def update(optimizer: Optimizer, scaler: GradScaler, loss: Tensor, lr: float, clip: float | None) -> None:
    """Backward, clip, step. The limit is on the norm of the true gradient, so unscaling comes first."""
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    if clip is not None:
        nn.utils.clip_grad_norm_([p for group in optimizer.param_groups for p in group["params"]], clip)
    for group in optimizer.param_groups:
        group["lr"] = lr
    scaler.step(optimizer)
    scaler.update()


def share(batch: Any, rank: int, world: int, device: torch.device) -> Any:
    """Process `rank` of `world`'s rows of the joint batch (tensors in tuples, lists, dicts), on its device."""
    if isinstance(batch, dict):
        return {key: share(value, rank, world, device) for key, value in batch.items()}
    if isinstance(batch, tuple | list):
        return type(batch)(share(value, rank, world, device) for value in batch)
    if not isinstance(batch, Tensor) or batch.dim() == 0:
        got = "one without rows" if isinstance(batch, Tensor) else type(batch).__name__
        raise TypeError(f"a batch holds tensors of rows, in tuples, lists or dicts, got {got}")
    if batch.size(0) % world:
        raise ValueError(f"a batch must split evenly over {world} processes, got a shape of {tuple(batch.shape)}")
    return batch.chunk(world)[rank].to(device, non_blocking=True)


def join_processes(device: torch.device) -> tuple[int, int, torch.device]:
    """(rank, number of processes, device of this one). Under `torchrun` joins its group: nccl on CUDA, else gloo."""
    world = int(os.environ.get("WORLD_SIZE", "1"))
    if device.type == "cuda":  # made the current device, since that one's generator is saved
        device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", device.index or 0)))
        torch.cuda.set_device(device)
    if world == 1:
        return 0, 1, device
    if not dist.is_initialized():
        dist.init_process_group("nccl" if device.type == "cuda" else "gloo")
        atexit.register(dist.destroy_process_group)
    return dist.get_rank(), world, device


def compiled(model: nn.Module, device: torch.device) -> nn.Module:
    """torch.compile(model); or the model itself, with a warning, where even a one-line function does not compile."""
    try:
        torch.compile(torch.neg)(torch.ones(2, device=device))
    except Exception as error:  # a compiler, Triton or headers may be missing: the way out is the same
        warnings.warn(f"torch.compile does not work here ({type(error).__name__}): training uncompiled", stacklevel=3)
        return model
    return torch.compile(model)  # type: ignore[return-value]


def random_states(device: torch.device, world: int) -> list[list[Tensor]]:
    """For every process, the states of the generators that dropout draws from: the CPU's and the device's own."""
    own = [torch.get_device_module(device)] if device.type in ("cuda", "mps", "xpu") else []
    states = [place.get_rng_state() for place in (torch, *own)]
    every = [states] * world
    if world > 1:
        dist.all_gather_object(every, states)
    return every


def save_checkpoint(path: Path, state: dict[str, Any]) -> None:
    """Writes beside the file, then renames: a crash at any moment leaves the old checkpoint or the new one, whole."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(path.name + ".part")
    with part.open("wb") as file:
        torch.save(state, file)
        file.flush()
        os.fsync(file.fileno())
    part.replace(path)


def load_checkpoint(path: Path, model: nn.Module, recipe: str) -> dict[str, Any]:
    """What `save_checkpoint` wrote, if the file is whole and comes from the same model and recipe."""
    try:
        state = torch.load(path, map_location="cpu", weights_only=True)
        theirs, got = {name: tuple(tensor.shape) for name, tensor in state["model"].items()}, state["recipe"]
    except Exception as error:  # zip, pickle and key errors all say the same to the reader
        raise ValueError(f"expected a whole checkpoint of `fit` in {path}, got a truncated or foreign file") from error
    ours = {name: tuple(tensor.shape) for name, tensor in model.state_dict().items()}
    for name in sorted(ours.keys() | theirs.keys()):
        if ours.get(name) != theirs.get(name):
            raise ValueError(f"expected {name} of shape {ours.get(name)} in {path}, got {theirs.get(name)}")
    if got != recipe:
        raise ValueError(f"expected a checkpoint of {recipe} in {path}, got one of {got}")
    return state


def fit(
    model: nn.Module,
    loss_fn: Callable[[nn.Module, Any], Tensor],
    batches: Callable[[int], Any],
    config: TrainConfig,
    checkpoint: str | Path | None = None,
    on_step: Callable[[int, float], bool | None] | None = None,
) -> list[float]:
    """Trains the model in place and returns the loss of every step, those before a resume included.

    loss_fn(model, batch) → scalar, the mean over the batch; it calls the model only as model(…)
    batches(step) → the joint batch of that step, the same whenever it is asked
    checkpoint: resumed from if it exists, written every `save_every` steps and at the end, seen by all processes
    on_step(step, loss): called after every step in every process; True ends the training

    Under `torchrun` gradients are averaged over the processes: that is the joint batch's if all shares weigh the same.
    """
    rank, world, device = join_processes(next(model.parameters()).device)
    runner, optimizer = model.to(device), adamw(model, config.weight_decay)
    scaler = GradScaler(device.type, enabled=config.amp is torch.float16)  # bfloat16 has float32's range
    parts: dict[str, Any] = {"model": model, "optimizer": optimizer, "scaler": scaler}
    recipe = str({**asdict(config), "processes": world, "save_every": None, "quiet": None})
    step, losses = 0, []
    checkpoint = None if checkpoint is None else Path(checkpoint)
    if checkpoint is not None and checkpoint.exists():
        state = load_checkpoint(checkpoint, model, recipe)
        step, losses = state["step"], state["losses"]
        for name, part in parts.items():
            part.load_state_dict(state[name])
        for place, drawn in zip([torch, torch.get_device_module(device)], state["random"][rank], strict=False):
            place.set_rng_state(drawn)
    elif rank > 0:
        torch.manual_seed(torch.initial_seed() + rank)  # every process drops other units
    if world > 1:
        runner = DistributedDataParallel(model, device_ids=[device.index] if device.type == "cuda" else None)
    if config.compile:
        runner = compiled(runner, device)
    bar = tqdm(initial=step, total=config.steps, disable=config.quiet or rank > 0)
    while step < config.steps:
        batch = share(batches(step), rank, world, device)
        runner.train()
        with torch.autocast(device.type, dtype=config.amp, enabled=config.amp is not None):
            loss = loss_fn(runner, batch)
        lr = warmup_cosine(step, config.steps, config.warmup, config.lr, config.min_lr)
        update(optimizer, scaler, loss, lr, config.clip)
        if world > 1:
            dist.all_reduce(loss := loss.detach())
        losses.append(loss.item() / world)
        if not math.isfinite(losses[-1]):
            raise FloatingPointError(f"expected a finite loss, got {losses[-1]} at step {step} with rate {lr:g}")
        ended = on_step is not None and on_step(step, losses[-1])
        step = config.steps if ended else step + 1
        bar.update()
        bar.set_postfix(loss=f"{losses[-1]:.4f}", refresh=False)
        if checkpoint is not None and (step % config.save_every == 0 or step == config.steps):
            state = {"step": step, "losses": losses, "recipe": recipe, "random": random_states(device, world)}
            if rank == 0:
                save_checkpoint(checkpoint, state | {name: part.state_dict() for name, part in parts.items()})
    bar.close()
    return losses
