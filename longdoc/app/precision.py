"""``trainer.precision=auto``: what the hardware is fast at."""

import torch


def choose_precision(accelerator: str) -> tuple[str, str]:
    """Choose the precision of a Trainer for what it will run on.

    bfloat16 has the range of float32 and needs no loss scaling. Older GPUs know only float16. A CPU without matrix
    instructions for bfloat16 computes it many times slower than float32.

    Args:
        accelerator: As given to the Trainer; ``auto`` takes a CUDA device where there is one.

    Returns:
        The precision, and the reason in words.
    """
    if accelerator in ("auto", "gpu", "cuda") and torch.cuda.is_available():
        capability = torch.cuda.get_device_capability()
        name = f"{torch.cuda.get_device_name()} has compute capability {capability[0]}.{capability[1]}"
        if capability >= (8, 0):
            return "bf16-mixed", f"{name}, which is fast at bfloat16"
        if capability >= (7, 0):
            return "16-mixed", f"{name}, which is fast at float16 but not at bfloat16"
        return "32-true", f"{name}, which is fast at float32 only"
    if accelerator in ("auto", "cpu") and not (accelerator == "auto" and torch.backends.mps.is_available()):
        # Older versions of torch do not tell.
        known: dict[str, bool] = getattr(torch.cpu, "get_capabilities", dict)()
        for feature in ("amx_bf16", "avx512_bf16"):
            if known.get(feature):
                return "bf16-mixed", f"the CPU has {feature}"
        return "32-true", "the CPU is not known to have AMX or AVX512-BF16"
    return "32-true", f"nothing else is known to pay on accelerator={accelerator!r}"
