"""The models of the zoo: how to build each of them small, and what it is called with."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import sys
import types
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

Built = tuple[nn.Module, dict[str, Any]]


class Entry(NamedTuple):
    """A model by name, the package it comes from, and how it is built."""

    name: str
    source: str
    build: Callable[[], Built]


def entries() -> Iterator[Entry]:
    """All models of the packages that are installed."""
    yield from _plain_torch()
    if importlib.util.find_spec("transformers"):
        yield from _transformers()
        if importlib.util.find_spec("peft"):
            yield from _peft()
    if importlib.util.find_spec("timm"):
        yield from _timm()


# -- transformers ------------------------------------------------------------------------------

SMALL: dict[str, Any] = {
    **dict.fromkeys(("hidden_size", "d_model", "n_embd", "dim", "embed_dim", "emb_dim"), 32),
    **dict.fromkeys(("embedding_size", "word_embed_proj_dim", "d_embed"), 32),
    **dict.fromkeys(("num_hidden_layers", "n_layer", "n_layers", "num_layers"), 2),
    **dict.fromkeys(("encoder_layers", "decoder_layers", "num_decoder_layers"), 2),
    **dict.fromkeys(("num_attention_heads", "n_head", "n_heads", "num_heads"), 4),
    **dict.fromkeys(("encoder_attention_heads", "decoder_attention_heads"), 4),
    **dict.fromkeys(("intermediate_size", "ffn_dim", "d_ff", "n_inner", "hidden_dim"), 64),
    **dict.fromkeys(("encoder_ffn_dim", "decoder_ffn_dim", "moe_intermediate_size"), 64),
    **dict.fromkeys(("d_inner", "shared_expert_intermediate_size", "ffn_hidden_size"), 64),
    **dict.fromkeys(("max_position_embeddings", "n_positions", "n_ctx", "max_seq_len"), 64),
    **dict.fromkeys(("num_experts", "num_local_experts", "n_routed_experts"), 4),
    **dict.fromkeys(("num_experts_per_tok",), 2),
    "num_key_value_heads": 2,
    "multi_query_group_num": 2,
    "head_dim": 8,
    "rotary_dim": 8,
    "d_kv": 8,
    "vocab_size": 99,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "decoder_start_token_id": 1,
    "image_size": 32,
    "patch_size": 8,
    "num_labels": 3,
}
SEQUENCE = (
    "bert roberta distilbert electra albert xlm-roberta camembert deberta deberta-v2 mpnet "
    "mobilebert squeezebert layoutlm flaubert xlm ernie roformer convbert "
    "nystromformer yoso mra megatron-bert rembert big_bird longformer ibert fnet data2vec-text "
    "esm modernbert roc_bert canine"
)
CAUSAL = (
    "gpt2 gpt_neox gptj opt bloom codegen llama mistral mixtral qwen2 qwen2_moe qwen3 "
    "qwen3_moe gemma gemma2 phi phi3 stablelm starcoder2 olmo olmo2 olmoe cohere falcon mpt "
    "granite biogpt ctrl openai-gpt persimmon xglm nemotron jetmoe glm smollm3 helium ernie4_5 "
    "mamba rwkv recurrent_gemma falcon_mamba bitnet exaone4 arcee hunyuan_v1_dense "
    "granitemoe phimoe gpt_oss gpt_bigcode"
)
SEQ2SEQ = "t5 mt5 bart mbart pegasus marian blenderbot m2m_100 led switch_transformers umt5"
IMAGES = (
    "vit beit dinov2 convnext convnextv2 swinv2 resnet mobilenet_v1 mobilenet_v2 "
    "mobilevit efficientnet poolformer segformer focalnet bit "
    "data2vec-vision vit_msn ijepa textnet dinov2_with_registers"
)
SPEECH = "wav2vec2 hubert wavlm unispeech sew data2vec-audio"


_LARGER = ("convnext", "convnextv2", "swinv2", "focalnet", "resnet", "segformer")
"""Models whose parts hang together too closely to be made smaller one by one."""


def _transformers() -> Iterator[Entry]:
    for kinds, auto, example in (
        (SEQUENCE, "AutoModelForSequenceClassification", _words),
        (CAUSAL, "AutoModelForCausalLM", _words),
        (SEQ2SEQ, "AutoModelForSeq2SeqLM", _two_texts),
        (IMAGES, "AutoModelForImageClassification", _pictures),
        (SPEECH, "AutoModelForCTC", _sound),
    ):
        for kind in kinds.split():
            yield Entry(kind, "transformers", partial(_from_config, kind, auto, example))
    yield Entry("clip", "transformers", _clip)


def _from_config(kind: str, auto: str, example: Callable[[], dict[str, Tensor]]) -> Built:
    import transformers

    config = transformers.AutoConfig.for_model(kind)
    has = {key: value for key, value in config.to_dict().items() if not isinstance(value, list)}
    known = {key: value for key, value in SMALL.items() if key in has}
    if kind in _LARGER:
        known = {"image_size": 64}
    config = transformers.AutoConfig.for_model(kind, **known)
    model = getattr(transformers, auto).from_config(config)
    given = example()
    if example is _pictures:
        size = getattr(config, "image_size", 64)
        size = size if isinstance(size, int) else 64
        given = {"pixel_values": torch.randn(2, 3, size, size)}
    return model, given


def _words() -> dict[str, Tensor]:
    return {"input_ids": torch.randint(5, 90, (2, 12)), "attention_mask": torch.ones(2, 12).long()}


def _two_texts() -> dict[str, Tensor]:
    return {**_words(), "decoder_input_ids": torch.randint(5, 90, (2, 7))}


def _pictures() -> dict[str, Tensor]:
    return {"pixel_values": torch.randn(2, 3, 32, 32)}


def _sound() -> dict[str, Tensor]:
    return {"input_values": torch.randn(2, 4000)}


def _clip() -> Built:
    import transformers

    sizes = {k: SMALL[k] for k in ("hidden_size", "num_hidden_layers", "num_attention_heads")}
    text = {**sizes, "intermediate_size": 64, "vocab_size": 99, "eos_token_id": 2}
    vision = {**sizes, "intermediate_size": 64, "image_size": 32, "patch_size": 8}
    config = transformers.CLIPConfig(text_config=text, vision_config=vision, projection_dim=16)
    model: nn.Module = transformers.CLIPModel(config)
    return model, {**_words(), **_pictures()}


# -- peft --------------------------------------------------------------------------------------


def _peft() -> Iterator[Entry]:
    for name in ("lora", "dora", "ia3", "loha", "lokr", "vera"):
        for base in ("llama", "bert"):
            yield Entry(f"{base} with {name}", "peft", partial(_adapted, base, name))


def _adapted(base: str, name: str) -> Built:
    import peft

    auto = "AutoModelForCausalLM" if base == "llama" else "AutoModelForSequenceClassification"
    model, example = _from_config(base, auto, _words)
    targets = ["q_proj", "v_proj"] if base == "llama" else ["query", "value"]
    config: Any
    if name == "ia3":
        config = peft.IA3Config(target_modules=targets, feedforward_modules=[])
    elif name == "loha":
        config = peft.LoHaConfig(r=4, target_modules=targets)
    elif name == "lokr":
        config = peft.LoKrConfig(r=4, target_modules=targets)
    elif name == "vera":
        config = peft.VeraConfig(r=4, target_modules=targets)
    else:
        config = peft.LoraConfig(r=4, target_modules=targets, use_dora=name == "dora")
    return peft.get_peft_model(model, config), example


# -- timm --------------------------------------------------------------------------------------

TIMM = (
    "resnet10t resnet18 resnetv2_50 seresnet18 regnetx_002 regnety_002 mobilenetv2_035 "
    "mobilenetv3_small_050 efficientnet_lite0 tf_efficientnet_b0 mnasnet_050 ghostnet_050 "
    "convnext_atto convnextv2_atto "
    "vit_tiny_patch16_224 deit_tiny_patch16_224 swin_tiny_patch4_window7_224 "
    "mixer_s32_224 pit_ti_224 levit_128s crossvit_9_240 "
    "coat_lite_tiny poolformer_s12 mobilevit_xxs edgenext_xx_small efficientformer_l1 "
    "eva02_tiny_patch14_224 xcit_nano_12_p16_224 "
    "repvgg_a0 tiny_vit_5m_224 "
    "fastvit_t8 repvit_m0_9 inception_next_atto hiera_tiny_224 "
    "visformer_tiny skresnet18 rexnet_100"
)


def _timm() -> Iterator[Entry]:
    _without_torchvision()
    for name in TIMM.split():
        yield Entry(name, "timm", partial(_timm_model, name))


def _timm_model(name: str) -> Built:
    import timm

    model: Any = timm.create_model(name, num_classes=3)
    _, height, width = model.default_cfg["input_size"]
    fixed = any(part in name for part in _FIXED_SIZE.split())
    size = (height, width) if fixed else (64, 64)
    return model, {"x": torch.randn(2, 3, *size)}


_FIXED_SIZE = (
    "vit deit cait swin mixer gmlp resmlp pit levit crossvit coat beit eva twins efficientformer "
    "xcit volo visformer hiera inception_v3"
)


def _without_torchvision() -> None:
    """timm imports torchvision's transforms, which no model needs; where it is not installed, empty
    names stand in for them."""
    if importlib.util.find_spec("torchvision") is None:
        sys.meta_path.append(_Absent())


class _AnyName(type):
    def __getattr__(cls, name: str) -> str:
        if name.startswith("__"):
            raise AttributeError(name)
        return name


class _AbsentModule(types.ModuleType):
    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _AnyName(name, (), {})


class _Absent:
    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name.partition(".")[0] != "torchvision":
            return None
        return importlib.machinery.ModuleSpec(name, self, is_package=True)  # type: ignore[arg-type]

    def create_module(self, spec: Any) -> types.ModuleType:
        return _AbsentModule(spec.name)

    def exec_module(self, module: types.ModuleType) -> None:
        return None


# -- torch itself ------------------------------------------------------------------------------


class _Over(nn.Module):
    """A module of torch between a linear layer and another."""

    def __init__(self, middle: nn.Module, inside: int = 8, outside: int = 8) -> None:
        super().__init__()
        self.first, self.middle, self.last = nn.Linear(6, inside), middle, nn.Linear(outside, 3)

    def forward(self, x: Tensor) -> Tensor:
        hidden = self.middle(self.first(x))
        hidden = hidden[0] if isinstance(hidden, tuple) else hidden
        result: Tensor = self.last(hidden)
        return result


class _SelfAttention(nn.MultiheadAttention):
    def forward(self, x: Tensor) -> Any:  # type: ignore[override]
        return super().forward(x, x, x)


def _plain_torch() -> Iterator[Entry]:
    encoder = partial(nn.TransformerEncoderLayer, 8, 2, 16, batch_first=True)
    kinds: dict[str, Callable[[], nn.Module]] = {
        "LSTM": partial(nn.LSTM, 8, 8, batch_first=True),
        "GRU": partial(nn.GRU, 8, 8, batch_first=True),
        "RNN": partial(nn.RNN, 8, 8, batch_first=True),
        "MultiheadAttention": partial(_SelfAttention, 8, 2, batch_first=True),
        "TransformerEncoderLayer": encoder,
        "TransformerEncoder": lambda: nn.TransformerEncoder(encoder(), 2),
        "weight_norm": lambda: nn.utils.parametrizations.weight_norm(nn.Linear(8, 8)),
        "spectral_norm": lambda: nn.utils.parametrizations.spectral_norm(nn.Linear(8, 8)),
        "PReLU": partial(nn.PReLU, 5),
        "RMSNorm": partial(nn.RMSNorm, 8),
    }
    for name, middle in kinds.items():
        yield Entry(name, "torch", partial(_around, middle))


def _around(middle: Callable[[], nn.Module]) -> Built:
    return _Over(middle()), {"x": torch.randn(2, 5, 6)}
