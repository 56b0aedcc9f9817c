"""One training run: build, fit, test the best checkpoint, report."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import lightning as L
import yaml
from hydra.core.hydra_config import HydraConfig
from hydra.utils import instantiate
from lightning.pytorch.callbacks import ModelCheckpoint
from omegaconf import DictConfig, OmegaConf
from rich.console import Console

from longdoc.app.baselines import baseline_lines, baselines
from longdoc.app.build import Run, build, close, complete
from longdoc.app.distillation import compare_with_teacher, print_comparison
from longdoc.app.environment import environment
from longdoc.app.processes import (
    check_settings,
    checkpoint_to_go_on,
    command_of_processes,
    is_first,
    orderly_end,
    return_freed_memory,
)
from longdoc.app.quiet import quieten
from longdoc.app.report import (
    count_lost,
    document_counts,
    evaluate,
    lost_line,
    print_report,
    speed_line,
    write_json,
)
from longdoc.app.resume import note_overrides
from longdoc.app.targets import check_targets
from longdoc.callbacks import ResultCollector, StepGuard, Throughput
from longdoc.callbacks.drift import Drift
from longdoc.errors import ConfigError
from longdoc.training.checkpoint import load
from longdoc.training.distillation import DistillationModule
from longdoc.training.ner import NERModule


def run(config: DictConfig) -> float:
    """Run a composed configuration; returns the best dev score, for sweepers."""
    choices, overrides = HydraConfig.get().runtime.choices, list(HydraConfig.get().overrides.task)
    plain: Any = OmegaConf.to_container(config, resolve=True, throw_on_missing=True)
    with command_of_processes():
        kept = {name: choices.get(name) for name in ("recipe", "strategy")}
        return train(plain, kept, overrides)["dev"]["best_score"]


def train(
    config: dict[str, Any], choices: dict[str, str | None] | None = None, overrides: Sequence[str] | None = None
) -> dict[str, Any]:
    """Train and test by a plain configuration.

    Args:
        config: As ``conf/config.yaml`` composes it.
        choices: Kept in ``metrics.json``: names of the recipe and the strategy.
        overrides: The words of the command line, kept for the next time that a resumed run is resumed.

    Returns:
        What ``metrics.json`` holds.
    """
    check_targets(config)
    config = complete(config)
    output = Path(config["output_dir"])
    if config["resume"] is not None and Path(config["resume"]).resolve() != output.resolve():
        raise ConfigError(f"resume={config['resume']}: a run goes on in its own folder, got output_dir={output}")
    if config["resume"] is None:
        _note_settings(config)
    else:
        check_settings(output, config)
    return_freed_memory()
    with quieten(), orderly_end():
        L.seed_everything(config["seed"], workers=True, verbose=False)
        parts = build(config)
        try:
            metrics = {**(choices or {}), "seed": config["seed"], **fit_and_test(config, parts, overrides)}
        finally:
            close(parts.loggers)
    if is_first():
        write_json(output / "metrics.json", metrics)
        pages = [str(path) for pattern in ("*.html", "attention") for path in sorted(output.glob(pattern))]
        seen = f"; to look at: {', '.join(pages)}" if pages else ""
        Console().print(f"Everything is in {output}{seen}", soft_wrap=True, highlight=False, markup=False)
    return metrics


def _note_settings(config: dict[str, Any]) -> None:
    if is_first():
        output = Path(config["output_dir"])
        output.mkdir(parents=True, exist_ok=True)
        settings = yaml.safe_dump(config, sort_keys=False, allow_unicode=True)
        (output / "config.yaml").write_text(settings, encoding="utf-8")
        write_json(output / "environment.json", environment(config["seed"]))


def fit_and_test(config: dict[str, Any], parts: Run, overrides: Sequence[str] | None = None) -> dict[str, Any]:
    """Fit, then test the checkpoint that was best on dev, and print the report."""
    console = Console(quiet=not is_first())
    collector = ResultCollector()
    trainer: L.Trainer = instantiate(
        config["trainer"],
        callbacks=[*parts.callbacks.values(), collector],
        logger=parts.loggers or False,
        default_root_dir=config["output_dir"],
        _convert_="object",
    )
    _check_validates(trainer)
    parts.datamodule.prepare_data()  # before Lightning starts processes that would wait for it
    go_on = None
    if config["resume"] is not None:
        go_on = checkpoint_to_go_on(Path(config["output_dir"]), trainer, parts.fitted, parts.datamodule)
        _note_settings(config)
        if is_first() and overrides is not None:
            note_overrides(Path(config["output_dir"]), overrides)
    for logger in trainer.loggers:
        logger.log_hyperparams(config)
    console.print(_introduction(parts), soft_wrap=True, highlight=False, markup=False)
    trainer.fit(parts.fitted, datamodule=parts.datamodule, ckpt_path=go_on)
    best_path, best_score = _best_checkpoint(parts)
    metrics: dict[str, Any] = {"task": config["task"], "dev": {"best_score": best_score}, "train": _of_training(parts)}
    if parts.datamodule.splits.get("test"):
        metrics["test"] = _test(config, parts, trainer, collector, best_path)
        metrics |= _speed(parts)
        if isinstance(parts.fitted, DistillationModule):
            metrics["distillation"] = compare_with_teacher(parts.fitted, trainer, parts.datamodule, collector, metrics)
        if not is_first():
            return metrics
        print_report(metrics["test"], "test", console)
        metrics["baselines"] = baselines(parts.module, parts.datamodule, parts.module.preprocessor)
        for line in baseline_lines(metrics["baselines"]):
            console.print(line, soft_wrap=True, highlight=False)
        if "distillation" in metrics:
            print_comparison(metrics["distillation"], config["task"], console)
    else:
        metrics |= _speed(parts)
        console.print("There is no test split, so nothing was tested")
    if "lost" in metrics["train"]:
        console.print(lost_line(metrics["train"]["lost"], metrics["train"]["num_gold"], "train"), soft_wrap=True)
    guards = [callback for callback in parts.callbacks.values() if isinstance(callback, StepGuard)]
    if guards:
        metrics["train"]["num_skipped_steps"] = guards[0].num_skipped
    if "speed" in metrics:
        console.print(speed_line(metrics["speed"]), soft_wrap=True)
    return metrics


def _speed(parts: Run) -> dict[str, Any]:
    clocks = [callback for callback in parts.callbacks.values() if isinstance(callback, Throughput)]
    return {"speed": clocks[0].summary()} if clocks else {}


def _test(
    config: dict[str, Any], parts: Run, trainer: L.Trainer, collector: ResultCollector, checkpoint: str
) -> dict[str, Any]:
    """Test the file that users will predict with, not the weights in memory."""
    tested, datamodule = load(checkpoint), parts.datamodule
    tested.max_tokens_per_forward = parts.module.max_tokens_per_forward
    if config["test_size_tokens"] is not None:
        tested.resize_windows(config["test_size_tokens"])
        datamodule = datamodule.encoded_by(tested.preprocessor)
    for callback in parts.callbacks.values():
        if isinstance(callback, Drift):
            callback.restore(checkpoint)
    trainer.test(tested, datamodule=datamodule, verbose=False)
    if not is_first():
        return {}
    lengths = {e.document.id: e.num_document_tokens for e in datamodule.encoded("test")}
    rows = [json.dumps(row, ensure_ascii=False) + "\n" for row in document_counts(collector.results)]
    (Path(config["output_dir"]) / "test_documents.jsonl").write_text("".join(rows), encoding="utf-8")
    return {**evaluate(tested, collector.results, lengths), "num_tokens": sum(lengths.values())}


def _of_training(parts: Run) -> dict[str, Any]:
    split = parts.datamodule.encoded("train")
    if not isinstance(parts.module, NERModule):
        return {"num_documents": len(split)}
    return {
        "num_documents": len(split),
        "num_gold": sum(len(encoded.document.spans or ()) for encoded in split),
        "lost": count_lost(item for encoded in split for item in encoded.lost),
    }


def _introduction(parts: Run) -> str:
    sizes = ", ".join(f"{len(documents)} {split}" for split, documents in parts.datamodule.splits.items())
    labels = parts.module.labels
    parameters = sum(p.numel() for p in parts.module.parameters())
    told = f"Documents: {sizes}. Labels: {', '.join(labels)}. Parameters: {parameters:,}."
    mapping = parts.fitted.mapping_line() if isinstance(parts.fitted, DistillationModule) else ""
    return f"{told} {mapping}".rstrip()


def _check_validates(trainer: L.Trainer) -> None:
    """Refuse a run that would train and keep nothing: the best checkpoint is chosen on dev."""
    epochs, every = trainer.max_epochs, trainer.check_val_every_n_epoch
    too_rare = epochs is not None and every is not None and 0 <= epochs < every
    if too_rare or trainer.limit_val_batches == 0 or trainer.max_steps == 0:
        raise ConfigError(
            "no validation would take place, and no checkpoint be kept; expected at least one, got "
            f"trainer.max_epochs={epochs}, trainer.check_val_every_n_epoch={every}, "
            f"trainer.max_steps={trainer.max_steps}, trainer.limit_val_batches={trainer.limit_val_batches}"
        )


def _best_checkpoint(parts: Run) -> tuple[str, float]:
    for callback in parts.callbacks.values():
        if isinstance(callback, ModelCheckpoint) and callback.best_model_score is not None:
            return callback.best_model_path, float(callback.best_model_score)
    raise ConfigError(
        "no checkpoint was written, as no validation took place; expected trainer.max_steps and trainer.max_time to "
        "reach the end of an epoch, or trainer.val_check_interval to come before"
    )
