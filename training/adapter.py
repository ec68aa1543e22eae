"""Trains the adapter of the bundled embedding model and writes it into the package: `make adapter`.

The adapter (LoRA, Hu et al., 2021) adds a product of two narrow matrices to the weights of some layers, so that texts
about Kubernetes incidents come near the workflows that fix them. `scripts/bundled_model.py` merges it into the weights
at set-up; nothing is trained there. Needs the dependency group `training`. On the same machine, the same examples give
the same bytes.
"""

import os

os.environ["HF_HUB_OFFLINE"] = "1"  # read when the libraries are imported; nothing is fetched

import hashlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from peft import LoraConfig, get_peft_model, get_peft_model_state_dict
from safetensors.numpy import save
from sentence_transformers import SentenceTransformer
from torch.nn.functional import cross_entropy

from dataset import Example, Examples, collect
from formulary_catalog.embedding.model import BASE, locate
from formulary_catalog.embedding.weights import WEIGHTS_FILE

ADAPTER = Path(__file__).parents[1] / "catalog" / "formulary_catalog" / "embedding" / "adapter.safetensors"
EXAMPLES = Path(__file__).parent / "examples.json"

SEED = 20261125
RANK = 8
SCALE = 2.0
"""What the product of the two matrices is multiplied by: alpha 16 over rank 8."""
LAYERS = (2, 3, 4, 5)
MATRICES = (
    "attention.self.query",
    "attention.self.key",
    "attention.self.value",
    "attention.output.dense",
    "intermediate.dense",
    "output.dense",
)
STEPS = 104
WARM_UP_STEPS = 8
LEARNING_RATE = 1e-3
QUERIES = 16
"""Queries in a step; the right documents of the others are wrong ones for each."""
OTHER_DOCUMENTS = 4
"""Wrong documents that are added to them, drawn at random."""
CONCEPTS = 16
"""Concepts in a step, each with one of the phrases said of it."""
TOGETHER = 8
"""Texts that run together; like `QUERIES`, it changes the last bits."""
SYNONYMS_WEIGHT = 0.3
TEMPERATURE = 0.07

Matrices = dict[str, npt.NDArray[np.float16]]


def main() -> None:
    examples = collect()
    EXAMPLES.write_text(examples.as_json(), encoding="utf-8")
    matrices = train(examples)
    origin = {
        "base_sha256": hashlib.sha256((locate(BASE).path / WEIGHTS_FILE).read_bytes()).hexdigest(),
        "examples_sha256": examples.digest,
        "scale": SCALE,
        "seed": SEED,
        "steps": STEPS,
    }
    # In one entry, since safetensors writes several in random order.
    ADAPTER.write_bytes(save(matrices, metadata={"origin": json.dumps(origin)}))
    print(f"{ADAPTER.name}: {ADAPTER.stat().st_size} bytes. The next steps are in training/README.md.")


def train(examples: Examples, *, steps: int = STEPS, seed: int = SEED) -> Matrices:
    """The trained matrices by `<tensor of the base>.lora_A` (rank, inputs) and `.lora_B` (outputs, rank)."""
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    torch.manual_seed(seed)
    model = SentenceTransformer(str(locate(BASE).path), device="cpu", model_kwargs={"dtype": torch.float32})
    layers = "|".join(map(str, LAYERS))
    targets = "|".join(matrix.replace(".", r"\.") for matrix in MATRICES)
    config = LoraConfig(
        r=RANK, lora_alpha=round(SCALE * RANK), target_modules=rf".*encoder\.layer\.({layers})\.({targets})"
    )
    encoder = get_peft_model(model[0].auto_model, config)
    model.eval()  # no dropout: gradients flow all the same
    parameters = [parameter for parameter in encoder.parameters() if parameter.requires_grad]
    optimizer = torch.optim.AdamW(parameters, lr=LEARNING_RATE)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min((step + 1) / WARM_UP_STEPS, (steps - step) / (steps - WARM_UP_STEPS))
    )
    random = np.random.default_rng(seed)
    batches = _batches(examples, random=random)
    for step in range(steps):
        loss = _search_loss(model, examples, next(batches), random=random)
        loss = loss + SYNONYMS_WEIGHT * _synonyms_loss(model, examples, random=random)
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]  # torch does not type it
        optimizer.step()
        schedule.step()
        if step % 10 == 9:
            print(f"step {step + 1} of {steps}, loss {loss.item():.3f}", flush=True)
    return _named(get_peft_model_state_dict(encoder))


def _batches(examples: Examples, *, random: np.random.Generator) -> Iterator[list[Example]]:
    """Queries in a new order in each round; what is left of a round begins the next."""
    waiting: list[Example] = []
    while True:
        waiting += [examples.queries[index] for index in random.permutation(len(examples.queries))]
        while len(waiting) >= QUERIES:
            yield waiting[:QUERIES]
            del waiting[:QUERIES]


def _search_loss(
    model: SentenceTransformer, examples: Examples, batch: list[Example], *, random: np.random.Generator
) -> torch.Tensor:
    """Each query has to find one of its best documents among those of the batch and a few others."""
    right = [int(random.choice(example.best)) for example in batch]
    shown = right + [int(index) for index in random.choice(len(examples.documents), OTHER_DOCUMENTS, replace=False)]
    queries = _embedded(model, [example.query for example in batch])
    documents = _embedded(model, [examples.documents[index] for index in shown])
    harmless = [[index in (*example.best, *example.acceptable) for index in shown] for example in batch]
    return _contrastive(queries @ documents.T, leave_out=harmless)


def _synonyms_loss(model: SentenceTransformer, examples: Examples, *, random: np.random.Generator) -> torch.Tensor:
    """What is said of a concept has to be nearest to the words for that concept."""
    drawn = [examples.synonyms[index] for index in random.choice(len(examples.synonyms), CONCEPTS, replace=False)]
    said = _embedded(model, [phrases[random.integers(len(phrases))] for phrases, _ in drawn])
    words = _embedded(model, [words for _, words in drawn])
    return _contrastive(said @ words.T, leave_out=[[False] * CONCEPTS] * CONCEPTS)


def _contrastive(cosines: torch.Tensor, *, leave_out: list[list[bool]]) -> torch.Tensor:
    """Cross-entropy of row i to column i; of the other columns, those to leave out do not count."""
    count = len(cosines)
    masked = torch.tensor(leave_out)
    masked[range(count), range(count)] = False
    return cross_entropy((cosines / TEMPERATURE).masked_fill(masked, -torch.inf), torch.arange(count))


def _embedded(model: SentenceTransformer, texts: list[str]) -> torch.Tensor:
    """Vectors of shape (n, 384). Texts of like length run together, as each is padded to the longest."""
    order = sorted(range(len(texts)), key=lambda index: len(texts[index]))
    portions = [order[start : start + TOGETHER] for start in range(0, len(order), TOGETHER)]
    vectors = [
        model(model.preprocess([texts[index] for index in portion]))["sentence_embedding"] for portion in portions
    ]
    return torch.cat(vectors)[torch.argsort(torch.tensor(order))]


def _named(trained: Mapping[str, torch.Tensor]) -> Matrices:
    """By the names that the base has for its tensors, in half precision."""
    return {
        name.removeprefix("base_model.model.").removesuffix(".weight"): tensor.detach().numpy().astype(np.float16)
        for name, tensor in trained.items()
    }


if __name__ == "__main__":
    main()
