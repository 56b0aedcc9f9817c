"""longdoc: tag and classify long documents with PyTorch Lightning. Names load on first use."""

from importlib import import_module

_HOME = {
    "ConfigError": "longdoc.errors",
    "DataError": "longdoc.errors",
    "MissingExtra": "longdoc.errors",
    "Document": "longdoc.text.documents",
    "Span": "longdoc.text.documents",
    "ClassScheme": "longdoc.text.classes",
    "ClassificationResult": "longdoc.text.results",
    "DocumentResult": "longdoc.text.results",
    "ReadOptions": "longdoc.text.formats",
    "read": "longdoc.text.formats",
    "read_splits": "longdoc.text.formats",
    "Preprocessor": "longdoc.text.preprocess",
    "Selection": "longdoc.text.selection",
    "TagScheme": "longdoc.text.tags",
    "Windower": "longdoc.text.windows",
    "AttentionConfig": "longdoc.models.hf_attention",
    "load_encoder": "longdoc.models.encoder",
    "set_attention": "longdoc.models.encoder",
    "use_longdoc_attention": "longdoc.models.hf_attention",
    "DistillConfig": "longdoc.models.distillation",
    "LossConfig": "longdoc.models.losses",
    "train_tokenizer": "longdoc.models.scratch",
    "scratch_encoder": "longdoc.models.scratch",
    "DocumentClassificationModule": "longdoc.training.classification",
    "DocumentDataModule": "longdoc.training.data",
    "DistillationModule": "longdoc.training.distillation",
    "NERModule": "longdoc.training.ner",
    "OptimizerConfig": "longdoc.training.optim",
    "layerwise_groups": "longdoc.training.optim",
    "freeze_": "longdoc.training.freezing",
    "GradualUnfreezing": "longdoc.training.freezing",
    "StepProfiler": "longdoc.training.profiling",
    "SpanF1": "longdoc.training.metrics",
    "load": "longdoc.training.checkpoint",
}

__all__ = sorted(_HOME)


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module 'longdoc' has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return __all__
