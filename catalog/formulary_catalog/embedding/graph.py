"""The network of a model of the BERT family, built from its weights with OpenVINO's operators (opset 13).

Called by `local` while the model loads (0.02 s). Replaces an export by torch: no training library is needed to serve,
and what runs is what is written here. The reference implementation is sentence-transformers; tests compare the vectors.
Source: Devlin et al., "BERT: Pre-training of Deep Bidirectional Transformers", 2018, and the original weights' layout.
"""

from collections.abc import Callable

import numpy as np
import openvino  # type: ignore[import-untyped]  # it ships no types
from openvino import opset13 as op
from openvino._offline_transformations import compress_model_transformation  # type: ignore[import-untyped]  # OpenVINO's own converter uses it; it ships no types

from formulary_catalog.embedding.architecture import Activation, Architecture, Normalization, Pooling
from formulary_catalog.embedding.weights import Tensor, Weights

EMBEDDINGS, MASK, VECTORS = "embeddings", "attention_mask", "vectors"
"""Input: rows of the word table, float32 (texts, tokens, hidden). Input: 1 for a token, 0 for padding, int64 (texts,
tokens). Output: unit vectors, float32 (texts, 384)."""

IDS = "input_ids"
"""The first input of an export instead of `embeddings`: int64 (texts, tokens)."""

WORD_TABLE = "embeddings.word_embeddings.weight"
"""Is no part of the graph: a text needs a few of its 30,000 rows, and a copy in float32 takes 46 MB."""

# Added to the attention on padding: the softmax gives it a weight of exactly 0.
_HIDDEN = np.float32(-1e4)
_LEAST_TOKENS = np.float32(1e-9)
_LEAST_NORM = 1e-12
_MOST_INT8 = 127
INT8_GROUP = 32
"""So many numbers in a row share a scale, of weights and, when the network runs, of activations."""


def build(architecture: Architecture, weights: Weights, *, quantized: bool = False) -> openvino.Model:
    """The network from word embeddings to unit vectors; `quantized` with the encoder's weights in int8.

    Raises LookupError if a tensor is missing.
    """
    hidden = op.parameter([-1, -1, architecture.hidden_size], np.float32, name=EMBEDDINGS)
    mask = op.parameter([-1, -1], np.int64, name=MASK)
    network = _Network(architecture, weights, mask=mask, quantized=quantized)
    vectors = network.pooled(network.encoded(network.embedded(hidden)))
    for part in architecture.head:
        if isinstance(part, Normalization):
            vectors = _unit(vectors)
            continue
        vectors = _linear(vectors, Weights(part.file), "linear")
        vectors = op.tanh(vectors) if part.activation is Activation.TANH else vectors
    result = op.result(_unit(vectors))
    for node, name in ((hidden, EMBEDDINGS), (mask, MASK), (result, VECTORS)):
        node.output(0).tensor.set_names({name})
    model = openvino.Model([result], [hidden, mask], "encoder")
    compress_model_transformation(model)  # constants in half precision stay so in memory: 20 MB less
    return model


class _Network:
    """The stages of the encoder; each takes and returns nodes of shape (texts, tokens, hidden)."""

    def __init__(self, architecture: Architecture, weights: Weights, *, mask: openvino.Node, quantized: bool) -> None:
        self._architecture = architecture
        self._weights = weights
        self._matrix = _int8 if quantized else _constant
        self._keep = op.convert(mask, "f32")
        hidden_where_padded = op.multiply(op.subtract(np.float32(1), self._keep), _HIDDEN)
        self._bias = op.unsqueeze(hidden_where_padded, _axes(1, 2))

    def embedded(self, words: openvino.Node) -> openvino.Node:
        """Words at their positions. Every text is one sequence, so all tokens have the first token type."""
        weights = self._weights
        types = weights["embeddings.token_type_embeddings.weight"].astype(np.float32)
        positions = weights["embeddings.position_embeddings.weight"].astype(np.float32) + types[0]
        tokens = op.gather(op.shape_of(words), _scalar(1), _scalar(0))
        numbers = op.range(_scalar(0), tokens, _scalar(1), output_type="i64")
        at_positions = op.add(words, op.gather(op.constant(positions), numbers, _scalar(0)))
        return self._normalised(at_positions, "embeddings.LayerNorm")

    def encoded(self, hidden: openvino.Node) -> openvino.Node:
        """All layers: attention and a feed-forward network, each with its residual and normalisation."""
        for number in range(self._architecture.layers):
            layer = f"encoder.layer.{number}"
            attended = self._dense(self._attention(hidden, layer), f"{layer}.attention.output.dense")
            hidden = self._normalised(op.add(hidden, attended), f"{layer}.attention.output.LayerNorm")
            inner = op.gelu(self._dense(hidden, f"{layer}.intermediate.dense"), "erf")
            outer = self._dense(inner, f"{layer}.output.dense")
            hidden = self._normalised(op.add(hidden, outer), f"{layer}.output.LayerNorm")
        return hidden

    def pooled(self, hidden: openvino.Node) -> openvino.Node:
        """One vector a text, (texts, hidden); padding takes no part in it."""
        keep = op.unsqueeze(self._keep, _axes(2))
        match self._architecture.pooling:
            case Pooling.FIRST:
                return op.gather(hidden, _scalar(0), _scalar(1))
            case Pooling.MAX:
                return op.reduce_max(op.add(hidden, op.multiply(op.subtract(np.float32(1), keep), _HIDDEN)), _axes(1))
            case Pooling.MEAN:
                count = op.maximum(op.reduce_sum(keep, _axes(1)), _LEAST_TOKENS)
                return op.divide(op.reduce_sum(op.multiply(hidden, keep), _axes(1)), count)

    def _attention(self, hidden: openvino.Node, layer: str) -> openvino.Node:
        query, key, value = (
            self._by_head(self._dense(hidden, f"{layer}.attention.self.{part}")) for part in ("query", "key", "value")
        )
        attended = op.scaled_dot_product_attention(query, key, value, self._bias)
        return op.reshape(op.transpose(attended, _axes(0, 2, 1, 3)), _axes(0, 0, self._architecture.hidden_size), True)

    def _by_head(self, hidden: openvino.Node) -> openvino.Node:
        heads = self._architecture.heads
        shape = _axes(0, 0, heads, self._architecture.hidden_size // heads)
        return op.transpose(op.reshape(hidden, shape, True), _axes(0, 2, 1, 3))

    def _dense(self, hidden: openvino.Node, name: str) -> openvino.Node:
        return _linear(hidden, self._weights, name, matrix=self._matrix)

    def _normalised(self, hidden: openvino.Node, name: str) -> openvino.Node:
        centred = op.mvn(hidden, _axes(-1), True, self._architecture.norm_epsilon, "inside_sqrt")
        scaled = op.multiply(centred, _constant(self._weights[f"{name}.weight"]))
        return op.add(scaled, _constant(self._weights[f"{name}.bias"]))


def _unit(vectors: openvino.Node) -> openvino.Node:
    return op.normalize_l2(vectors, _axes(1), _LEAST_NORM, "max")


def _constant(tensor: Tensor) -> openvino.Node:
    """The tensor, copied: a graph that shares memory with Python releases it in threads without Python's lock."""
    return op.constant(tensor.astype(np.float32))


def _int8(matrix: Tensor) -> openvino.Node:
    """The matrix with a scale for each 32 columns of a row. OpenVINO recognises the pattern and multiplies integers."""
    rows, columns = matrix.shape
    groups = matrix.astype(np.float32).reshape(rows, -1, INT8_GROUP if columns % INT8_GROUP == 0 else columns)
    scales = np.maximum(np.abs(groups).max(axis=2, keepdims=True), _LEAST_NORM) / np.float32(_MOST_INT8)
    rounded = op.convert(op.constant(np.round(groups / scales).astype(np.int8)), "f32")
    return op.reshape(op.multiply(rounded, op.constant(scales)), _axes(rows, columns), False)


def _linear(
    values: openvino.Node,
    weights: Weights,
    name: str,
    *,
    matrix: Callable[[Tensor], openvino.Node] = _constant,
) -> openvino.Node:
    product = op.matmul(values, matrix(weights[f"{name}.weight"]), False, True)
    bias = f"{name}.bias"
    return op.add(product, _constant(weights[bias])) if bias in weights else product


def _scalar(value: int) -> openvino.Node:
    return op.constant(np.int64(value))


def _axes(*values: int) -> openvino.Node:
    return op.constant(np.array(values, np.int64))
