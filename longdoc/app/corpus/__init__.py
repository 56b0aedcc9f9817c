"""Judgments that longdoc writes itself, in English and Chinese, to train on with nothing downloaded.

**What is labelled.** Ten types, see ``LABELS``. Names of people and companies count, titles and role words ("the claimant")
do not. One rule decides what is an entity: it has to belong to this case. A paragraph that tells the facts of another reported
case has people, dates, sums, statutes, courts and numbers too, and none of them is labelled. Streets, ships, clauses and
quantities never are.

**How a label is known.** The words next to a name do not give its role. What does is the opening of the passage, some 5 to 80
words before ("Counsel were not agreed on the law."), the end of the sentence, the caption or a list. A *far* mention stands in a
passage that tells no role: the person was introduced at the beginning of the judgment, more than 512 tokens away, and no
nearer place says who it is. One claimant, one defendant and one witness appear there, each as often as the others. Far
mentions have ``slice="far"``.

**Splits.** Names, courts, statutes, layouts and sentences are dealt out: 5 of 8 to train, 1 to dev, 2 to test. Single words
(first names, trades, nouns) and short remarks without entities are common to all.

**How hard it is.** Strict F1 over all entities of 40 test judgments, learned from 160: a gazetteer of the training entities
(longest match) 0.10 in English and 0.12 in Chinese; logistic regression on each word's form and three neighbours either side,
IOB2 tags, 0.47 and 0.49. Measured by ``python -m tests.bench.corpus``.

**The class of a document** is what became of the claim and of the counterclaim, see ``OUTCOMES``. The claim is decided in the
first part of the judgment and the counterclaim in the last, in the same words ("succeeds", "is dismissed"). Either place alone
leaves two classes open, and so do the words without what they are said of.
"""

import random

from longdoc.app.corpus.judgment import OUTCOMES, Judgment
from longdoc.app.corpus.writer import SPLITS, Writer, read_tables, share
from longdoc.errors import check_choice, check_integer
from longdoc.text.documents import Document

__all__ = ["LABELS", "LANGUAGES", "OUTCOMES", "generate"]

LABELS = (
    "AMOUNT", "CASE_NUMBER", "COUNSEL", "COURT", "DATE", "DEFENDANT", "JUDGE", "PLAINTIFF", "STATUTE", "WITNESS",
)

# Language: what stands between two sentences, what stands before a paragraph.
LANGUAGES = {"en": (" ", "{}. "), "zh": ("", "\u3000\u3000")}


def generate(language: str, split: str, num_documents: int, seed: int) -> list[Document]:
    """Write judgments; the same arguments give the same text everywhere, and a longer list begins with the shorter one.

    Args:
        language: ``en`` or ``zh``.
        split: ``train``, ``dev`` or ``test``.
        num_documents: How many.
        seed: Of every choice.

    Returns:
        Documents with spans and one class each.

    Raises:
        ConfigError: Unknown language or split, or fewer than no documents.
    """
    check_choice("language", language, sorted(LANGUAGES))
    check_choice("split", split, SPLITS)
    check_integer("num_documents", num_documents, 0)
    space, numbering = LANGUAGES[language]
    dealt, common = read_tables(language)
    tables = {name: share(items, split) for name, items in dealt.items()} | common
    documents = []
    for number in range(num_documents):
        document_id = f"{language}-{split}-{number:04d}"
        rng = random.Random(f"{seed} {document_id}")
        documents.append(Judgment(Writer(tables, rng), space, numbering).write(document_id))
    return documents
