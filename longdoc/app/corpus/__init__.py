"""The embedded corpus."""

import random

from longdoc.app.corpus import english
from longdoc.app.corpus.judgment import Judgment
from longdoc.app.corpus.writer import SPLITS, Writer
from longdoc.errors import ConfigError
from longdoc.text.documents import Document

LANGUAGES = {"en": (english, " ", "{}. ")}
LABELS = ()


def generate(language: str, split: str, num_documents: int, seed: int) -> list[Document]:
    if language not in LANGUAGES:
        raise ConfigError(f"language: expected one of {sorted(LANGUAGES)}, got {language!r}")
    if split not in SPLITS:
        raise ConfigError(f"split: expected one of {list(SPLITS)}, got {split!r}")
    tables, space, numbering = LANGUAGES[language]
    documents = []
    for number in range(num_documents):
        document_id = f"{language}-{split}-{number:04d}"
        rng = random.Random(f"{seed} {document_id}")
        documents.append(Judgment(Writer(tables.DEALT, tables.COMMON, split, rng), space, numbering).write(document_id))
    return documents
