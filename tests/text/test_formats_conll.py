"""CoNLL: schemes, ill-formed tags, separators, blank tokens, documents."""

import random

import pytest

from longdoc.errors import ConfigError, DataError
from longdoc.text.documents import Document, Span
from longdoc.text.formats import ReadOptions, read
from longdoc.text.formats.conll import decode_tags, detect_scheme


def reading(tmp_path, content: str, name: str = "x.conll", **options):
    path = tmp_path / name
    path.write_bytes(content.encode())
    source = read(path, options=ReadOptions(**options))
    return list(source), source.report


def columns(tokens: list[str], tags: list[str], separator: str = " ") -> str:
    return "\n".join(f"{token}{separator}{tag}" for token, tag in zip(tokens, tags, strict=True)) + "\n"


def surfaces(document: Document) -> list[tuple[str, str]]:
    return [(document.text[span.start : span.end], span.label) for span in document.spans or ()]


SAME = {
    "iob1": ["I-PER", "I-PER", "B-PER", "I-LOC", "O"],
    "iob2": ["B-PER", "I-PER", "B-PER", "B-LOC", "O"],
    "bioes": ["B-PER", "E-PER", "S-PER", "S-LOC", "O"],
    "bilou": ["B-PER", "L-PER", "U-PER", "U-LOC", "O"],
}


@pytest.mark.parametrize("scheme", list(SAME))
@pytest.mark.parametrize("named", [True, False])
def test_all_schemes_read_the_same(tmp_path, scheme, named):
    assert detect_scheme(SAME[scheme], [True] + [False] * 4) == scheme
    content = columns(["Ann", "Lee", "Bob", "Rome", "."], SAME[scheme])
    (document,), report = reading(tmp_path, content, **({"tag_scheme": scheme} if named else {}))
    assert document.text == "Ann Lee Bob Rome ."
    assert surfaces(document) == [("Ann Lee", "PER"), ("Bob", "PER"), ("Rome", "LOC")]
    assert not report.repairs


# tags, scheme -> chunks as conlleval finds them, and the tokens that the scheme forbids
ILL_FORMED = [
    (["B-PER", "L-PER", "O", "B-MISC"], "bilou", [(0, 2, "PER"), (3, 4, "MISC")], [3]),
    (["I-Phone", "I-Phone"], "iob2", [(0, 2, "Phone")], [0]),
    (["I-Phone", "I-Phone"], "iob1", [(0, 2, "Phone")], []),
    (["B-A", "I-B", "O"], "iob2", [(0, 1, "A"), (1, 2, "B")], [1]),
    (["B-A", "I-A", "B-A"], "bioes", [(0, 2, "A"), (2, 3, "A")], [1, 2]),
    (["E-A", "O", "I-A", "E-A"], "bioes", [(0, 1, "A"), (2, 4, "A")], [0, 2]),
    (["S-A", "I-A"], "bioes", [(0, 1, "A"), (1, 2, "A")], [1]),
    (["U-A", "L-A", "L-A"], "bilou", [(0, 1, "A"), (1, 2, "A"), (2, 3, "A")], [1, 2]),
]


@pytest.mark.parametrize(("tags", "scheme", "chunks", "ill_formed"), ILL_FORMED)
def test_ill_formed_tags_are_read_as_conlleval_does_and_counted(tmp_path, tags, scheme, chunks, ill_formed):
    assert decode_tags(tags, [True] + [False] * (len(tags) - 1), scheme) == (chunks, ill_formed)
    content = columns([f"w{i}" for i in range(len(tags))], tags)
    (document,), report = reading(tmp_path, content, tag_scheme=scheme)
    assert len(document.spans) == len(chunks)
    if ill_formed:
        (repair,) = report.repairs
        assert repair.line == ill_formed[0] + 1
        assert repair.reason.startswith(f"{len(ill_formed)} tags are ill-formed in {scheme}")
    else:
        assert not report.repairs


def test_chunks_equal_seqeval_in_its_default_mode():
    seqeval = pytest.importorskip("seqeval.metrics.sequence_labeling")
    dice = random.Random(0)
    for _ in range(500):
        tags = [dice.choice(["O", "B-A", "I-A", "B-B", "I-B"]) for _ in range(8)]
        expected = [(start, end + 1, label) for label, start, end in seqeval.get_entities(tags)]
        assert decode_tags(tags, [True] + [False] * 7, "iob2")[0] == expected


def test_no_chunk_crosses_a_sentence():
    assert decode_tags(["B-A", "I-A"], [True, True], "iob2") == ([(0, 1, "A"), (1, 2, "A")], [1])


def test_documents_sentences_and_spare_columns(tmp_path):
    content = (
        "-DOCSTART- -X- -X- O\r\n\r\nEU NNP B-NP B-ORG\r\nrejects VBZ B-VP O\r\n\r\nPeter NNP B-NP B-PER\r\n\r\n\r\n"
    )
    content += "-DOCSTART- -X- -X- O\r\n\r\nRome NNP B-NP B-LOC"
    documents, _ = reading(tmp_path, content)
    assert [document.text for document in documents] == ["EU rejects\nPeter", "Rome"]
    assert [document.id for document in documents] == ["x:1", "x:2"]
    assert [surfaces(document) for document in documents] == [[("EU", "ORG"), ("Peter", "PER")], [("Rome", "LOC")]]
    chunks, _ = reading(tmp_path, content, fields={"text": 0, "spans": 2})
    assert surfaces(chunks[0]) == [("EU", "NP"), ("rejects", "VP"), ("Peter", "NP")]


def test_a_file_without_document_starts_is_one_document(tmp_path):
    documents, _ = reading(tmp_path, "\n\nAnn B-A\n\n# comment = x\n# O\nBob B-A\n")
    assert [document.text for document in documents] == ["Ann\n# Bob"]
    assert reading(tmp_path, "\n\n")[0] == []
    assert reading(tmp_path, "")[0] == []


@pytest.mark.parametrize("odd", [" ", "", "\u200b", "\ufffd", "\u02dc", "\u00a0", "\u3000", "\u2028", "\x85"])
def test_blank_and_invisible_tokens_shift_nothing(tmp_path, odd):
    content = columns(["hello", odd, "hm", odd, "Ann", "Lee"], ["O", "O", "O", "O", "B-PER", "I-PER"], "\t")
    (document,), report = reading(tmp_path, content)
    assert document.text == f"hello {odd} hm {odd} Ann Lee"
    assert surfaces(document) == [("Ann Lee", "PER")]
    assert not report.repairs
    (document,), _ = reading(tmp_path, columns(["Ann", odd, "Lee"], ["B-PER", "I-PER", "I-PER"], "\t"))
    assert surfaces(document) == [(f"Ann {odd} Lee", "PER")]


@pytest.mark.parametrize("odd", ["\u00a0", "\u3000", "\u200b", "\u2028"])
def test_blanks_that_are_no_separators_stay_in_their_token(tmp_path, odd):
    (document,), _ = reading(tmp_path, columns([f"10{odd}km", "."], ["B-Q", "O"], "  "))
    assert surfaces(document) == [(f"10{odd}km", "Q")]


def test_an_edited_tag_counts_and_an_edited_token_is_reported(tmp_path):
    head = '-DOCSTART-\tO\n# id = "d"\n# text = "  Ann   lives."\n'
    (document,), _ = reading(tmp_path, head + "Ann\tB-PER\nlives\tO\n.\tO\n")
    assert document == Document("d", "  Ann   lives.", (Span(2, 5, "PER"),))
    with pytest.raises(DataError, match=r"x.conll:5: token 'lifes' does not come next in the # text"):
        reading(tmp_path, head + "Ann\tB-PER\nlifes\tO\n.\tO\n")
    with pytest.raises(DataError, match="goes on after its last token"):
        reading(tmp_path, head + "Ann\tB-PER\nlives\tO\n")
    with pytest.raises(DataError, match="# text is not a JSON string"):
        reading(tmp_path, head.replace(' lives."', " lives") + "Ann\tO\n")


def test_comments_of_sentences_are_passed_over(tmp_path):
    sentence = '# sent_id = s1\n# id = "s1"\n# text = "Ann ran."\n1\tAnn\tB-PER\n2\tran\tO\n3\t.\tO\n\n'
    expected = ["Ann ran .\nAnn ran ."]
    documents, _ = reading(tmp_path, "# newdoc id = a\n# newpar\n" + 2 * sentence, fields={"text": 1})
    assert [(document.id, document.text) for document in documents] == [("x:1", expected[0])]
    documents, _ = reading(tmp_path, 2 * ("-DOCSTART- O O\n\n" + 2 * sentence), fields={"text": 1})
    assert [(document.id, document.text) for document in documents] == [("x:1", expected[0]), ("x:2", expected[0])]


def test_layout_errors(tmp_path):
    for fields in ({"spans": -5}, {"text": -7}):
        with pytest.raises(DataError, match="expected a token and a tag on each line, got 3 columns"):
            reading(tmp_path, "Ann NNP O\n", fields=fields)
    with pytest.raises(DataError, match="expected a token and a tag on each line, got 1 columns"):
        reading(tmp_path, "Ann\nBob\n")
    with pytest.raises(ConfigError, match="column numbers"):
        reading(tmp_path, "Ann O\n", fields={"text": "word"})
    with pytest.raises(DataError, match="got 2 columns"):
        reading(tmp_path, "Ann O\n", fields={"spans": 5})
