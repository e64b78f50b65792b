"""What two explorers show was measured with the encoder: `python book/explorer_data.py` writes the data they load.

Data are scripts, not JSON: a page opened from a file may not fetch anything. tests/book proves that they are true.
"""

import json
from pathlib import Path

import torch
from results import load

from encoder.heads import inspect_heads
from encoder.pretrained import load_minilm

EXPLORERS = Path(__file__).resolve().parent / "_static" / "explorers"
SENTENCES = [
    "The animal did not cross the street because it was tired.",
    "She gave the book to her brother, who read it twice.",
]


@torch.no_grad()
def heads() -> list[dict]:
    """For each sentence: its tokens and the weights [layer][head][query][key] of MiniLM, in thousandths."""
    model, tokenizer = load_minilm()
    tokenizer.no_padding()
    found = []
    for text in SENTENCES:
        encoded = tokenizer.encode(text)
        x = model.embeddings(torch.tensor([encoded.ids]))
        layers = []
        for layer in model.encoder.layers:  # post-LN: attention reads the layer's input as it is
            weights, _ = inspect_heads(layer.attention, x)
            layers.append((weights[0] * 1000).round().int().tolist())
            x = layer(x)
        found.append({"text": text, "tokens": encoded.tokens, "weights": layers})
    return found


def gradients() -> dict:
    """What experiments/05_layer.py measured at initialisation: each layer's gradient norm, mean over the seeds."""
    measured = load("05_layer")
    norms = measured["gradient_norm_of_each_layer"]

    def mean(runs: list[list[float]]) -> list[float]:
        return [round(sum(values) / len(values), 4) for values in zip(*runs, strict=True)]

    sides = {side: {depth: mean(runs) for depth, runs in norms[f"{side}-LN"].items()} for side in ("pre", "post")}
    return {"depths": measured["depths"], "seeds": len(norms["pre-LN"]["6"]), **sides}


def write(name: str, content: list | dict) -> None:
    text = json.dumps(content, separators=(",", ":"), ensure_ascii=False)
    (EXPLORERS / f"{name}-explorer.data.js").write_text(f"window.explorers.data.{name}={text};\n", encoding="utf-8")


if __name__ == "__main__":
    write("heads", heads())
    write("gradient", gradients())
