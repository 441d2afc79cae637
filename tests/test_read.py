"""read: is this line whole? Whatever a transcript has been through, whole entries come out and the rest is counted."""

from __future__ import annotations

import io
import itertools
import json
import os
import re
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from transcripts import as_file, as_line, assistant, numbered, read_all, user

from bottlepipe.errors import NothingToRender, SourceUnreadable
from bottlepipe.read import Block, Entry, Skipped, _Bounded, open_transcript, read_entries

ONE = as_line(user("one", uuid="u1"))
TWO = as_line(user("two", uuid="u2"))
TORN, UNFINISHED, NO_RECORD = "torn line", "unfinished last line", "line that is no record"


def text_of(entry: Entry | Skipped) -> Any:
    """An entry's text, or (line, reason) of what was skipped."""
    if isinstance(entry, Skipped):
        return entry.line, entry.reason
    content = entry.message.content if entry.message else None
    return "".join(b if isinstance(b, str) else (b and b.text) or "" for b in content) if content else content


def texts(data: bytes) -> list[Any]:
    return [text_of(entry) for entry in read_all(data)]


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        pytest.param(b"", [], id="nothing"),
        pytest.param(ONE + TWO, ["one", "two"], id="whole lines"),
        pytest.param(ONE + TWO.rstrip(), ["one", "two"], id="whole last line without its newline"),
        pytest.param(ONE + TWO[:-9], ["one", (2, UNFINISHED)], id="torn last line"),
        pytest.param(ONE + b"{", ["one", (2, UNFINISHED)], id="last line of one character"),
        pytest.param(ONE[:-9] + b"\n" + TWO, [(1, TORN), "two"], id="torn line in the middle"),
        pytest.param(ONE + TWO[20:], ["one", (2, TORN)], id="line without its beginning"),
        pytest.param(ONE.rstrip() + TWO, ["one", "two"], id="two values on one line"),
        pytest.param(ONE.rstrip() + b" " + TWO + ONE, ["one", "two", "one"], id="two values with a space between"),
        pytest.param(ONE[:30] + TWO, [(1, TORN), "two"], id="cut record and a whole one"),
        pytest.param(ONE[:30] + TWO[:30] + ONE + TWO, [(1, TORN), "one", "two"], id="two cut records and a whole one"),
        pytest.param(ONE[:30] + TWO[:-9], [(1, UNFINISHED)], id="cut record and an unfinished one"),
        pytest.param(b"\x00" * 5000 + ONE + TWO, ["one", "two"], id="run of NUL before a record"),
        pytest.param(ONE + b"\x00" * 5000 + b"\n" + TWO, ["one", "two"], id="line of NUL"),
        pytest.param(ONE[:30] + b"\x00" * 5000 + TWO, [(1, TORN), "two"], id="run of NUL after a cut record"),
        pytest.param(ONE + TWO + b"\x00" * 5000, ["one", "two"], id="run of NUL at the end"),
        pytest.param(b"\xef\xbb\xbf" + ONE + TWO, ["one", "two"], id="byte order mark"),
        pytest.param((ONE + TWO).replace(b"\n", b"\r\n"), ["one", "two"], id="CRLF"),
        pytest.param(b"\n\n" + ONE + b"  \t\n\r\n" + TWO + b"\n", ["one", "two"], id="blank lines"),
        pytest.param(
            b"null\n17\n[1]\n" + b'"x"\ntrue\n' + ONE,
            [*((n, NO_RECORD) for n in range(1, 6)), "one"],
            id="lines that are no object",
        ),
        pytest.param(b"not json\n" + ONE, [(1, TORN), "one"], id="words"),
        pytest.param(
            as_line(user("a\u2028b\u0085c\u000b\u000cd")), ["a\u2028b\u0085c\x0b\x0cd"], id="other line separators"
        ),
        pytest.param(
            b'{"type":"user","message":{"content":"a\tb"}}\n', ["a\tb"], id="raw control character in a string"
        ),
        pytest.param(b'{"type":"user","message":{"content":"x \\ud83d y"}}\n', ["x \ufffd y"], id="lone surrogate"),
        pytest.param(b'{"type":"user","message":{"content":"\\ud83d\\ude00"}}\n', ["\U0001f600"], id="surrogate pair"),
        pytest.param(b'{"type":"user","message":{"content":"x \xff y"}}\n', ["x \ufffd y"], id="invalid UTF-8"),
        pytest.param(
            b'{"type":"user","n":1e999,"m":NaN,"message":{"content":"x"}}\n', ["x"], id="numbers that are none"
        ),
        pytest.param(
            b"{" + b'"n":' + b"9" * 6000 + b',"type":"user","message":{"content":"\\ud83d"}}\n',
            ["\ufffd"],
            id="endless number",
        ),
        pytest.param(
            as_line(user("\ufeff marked \ufeff")).replace(b"marked", b"\xff"),
            ["\ufeff \ufffd \ufeff"],
            id="marks in a text",
        ),
        pytest.param(
            b'{"role":"user","content":"bare","id":5}\n' + TWO, ["bare", "two"], id="bare message with a mistyped id"
        ),
    ],
)
def test_whole_entries_come_out_and_the_rest_is_counted(data: bytes, expected: list[Any]) -> None:
    """Each piece that cannot be used is one Skipped with its line number and reason."""
    assert expected == texts(data)


def test_a_line_torn_inside_a_character_is_unfinished() -> None:
    """A live file can end between the bytes of one character."""
    line = as_line(user("Brötchen 漢", uuid="u2"))

    for end in range(len(line) - 8, 30, -1):
        assert ["one", (2, UNFINISHED)] == texts(ONE + line[:end])


def test_a_nested_record_in_a_torn_one_is_not_an_entry() -> None:
    """A progress entry holds a whole message of a subagent; cut after it, that message must not become speech."""
    inner = json.loads(as_line(user("a subagent's words", uuid="s1")))
    progress = as_line(
        {"type": "progress", "data": {"message": inner, "type": "agent_progress"}, "toolUseID": "toolu_1"}
    )

    assert [(1, TORN), "two"] == texts(progress[:-12] + TWO)


def test_a_record_after_a_cut_one_with_many_parts_is_found() -> None:
    """However many content blocks the cut record has, the search for the next one goes past them."""
    blocks = [{"type": "text", "text": f"part {n}"} for n in range(500)]

    assert [(1, TORN), "two"] == texts(as_line(user(blocks))[:-9] + TWO)


@pytest.mark.parametrize("opening", [b'{"a":', b"[", b'{"type":', b'[{"uuid":'])
def test_endless_nesting_costs_its_own_line_only(opening: bytes) -> None:
    """100,000 levels are counted and passed over, without a crash and without trying each level."""
    result = texts(opening * 100_000 + b"\n" + ONE)

    assert "one" == result[-1]
    assert all(line == 1 for line, _ in result[:-1])
    assert len(result) > 1


@pytest.mark.parametrize(
    "line",
    [
        pytest.param('{"type":"user","toolUseResult":%s,"message":{"content":"x"}}', id="value"),
        pytest.param('%s{"type":"user","message":{"content":"x"},"uuid":"u9"}', id="value before a record"),
        pytest.param('{"type":"user","cwd":%s,"message":{"content":"x"}}', id="mistyped value"),
    ],
)
def test_how_deep_a_value_may_be_nested_does_not_depend_on_the_caller(line: str) -> None:
    """A render deep inside another program gives the same bottle as the command."""

    def below(frames: int, data: bytes) -> list[Any]:
        return below(frames - 1, data) if frames else texts(data)

    for depth in (*range(250, 850, 50), *range(850, 1010, 10)):
        data = (line % ("[" * depth + "null" + "]" * depth)).encode() + b"\n" + ONE
        # Python's limit is 1,000 frames, and some are taken already.
        answers = [below(frames, data) for frames in (0, 100, 300, 700)]

        assert "one" == answers[0][-1]
        assert answers == [answers[0]] * 4, depth


def test_a_deep_value_that_is_not_needed_may_cost_its_line_but_is_counted() -> None:
    """Nothing is dropped in silence: a whole line nested too deeply names that as its reason."""
    deep = b'{"type":"user","toolUseResult":' + b"[" * 100_000 + b"]" * 100_000 + b',"message":{"content":"x"}}\n'

    assert texts(deep + ONE) in (["x", "one"], [(1, "line nested too deeply"), "one"])


def test_a_hopeless_line_is_given_up_in_little_time() -> None:
    """A megabyte of things that look like beginnings does not make the search quadratic."""
    line = b'{"type":"user","x":"' * 50_000

    assert [(1, TORN), "one"] == texts(line + b"\n" + ONE)


@pytest.mark.parametrize(
    ("entry", "text"),
    [
        ({"type": "user", "message": "words", "uuid": "u"}, None),
        ({"type": "user", "message": {"0": "w"}, "uuid": "u"}, None),
        ({"type": "user", "message": {"content": {"text": "x"}}, "uuid": "u"}, None),
        ({"type": "user", "message": {"content": "kept", "id": 7, "role": []}, "uuid": "u"}, "kept"),
        (
            {"type": "user", "message": {"content": "kept"}, "uuid": "u", "isMeta": "no", "cwd": 5, "origin": "human"},
            "kept",
        ),
        ({"type": "user", "message": {"content": [{"type": "text", "text": "kept"}, 5]}, "uuid": "u"}, "kept"),
        ({"type": "user", "message": {"content": [{"type": "text", "text": "kept", "id": 5}]}, "uuid": "u"}, "kept"),
        ({"type": "user", "message": {"content": [{"type": "text", "text": 5}, "kept"]}, "uuid": "u"}, "kept"),
    ],
)
def test_a_mistyped_field_costs_itself_and_keeps_the_entry(entry: dict[str, Any], text: str | None) -> None:
    """The entry stays, so that the tree keeps its link; lost words are counted."""
    result = read_all(as_line(entry) + TWO)

    entries = [item for item in result if isinstance(item, Entry)]
    assert ["u", "u2"] == [item.uuid for item in entries]
    assert (text or None) == (text_of(entries[0]) or None)


@pytest.mark.parametrize("content", [{"text": "x"}, [5], [{"type": "text", "text": 5}], 5])
def test_words_lost_to_a_wrong_type_are_counted(content: Any) -> None:
    """Where a field could have held words, its loss is named with the line."""
    result = read_all(ONE + as_line({"type": "user", "message": {"content": content}, "uuid": "u"}))

    assert [(2, "record with a mistyped field")] == [(s.line, s.reason) for s in result if isinstance(s, Skipped)]


MESSAGES = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": [{"type": "text", "text": "ho"}]}]


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(json.dumps(MESSAGES).encode(), id="one line"),
        pytest.param(json.dumps(MESSAGES, indent=2).encode(), id="pretty-printed"),
        pytest.param(
            b"\xef\xbb\xbf" + json.dumps(MESSAGES, indent=2).encode().replace(b"\n", b"\r\n"), id="BOM and CRLF"
        ),
        pytest.param(b"\n ".join(json.dumps(m, indent=2).encode() for m in MESSAGES), id="pretty-printed values"),
        pytest.param(b"".join(json.dumps(m).encode() + b"\n" for m in MESSAGES), id="bare messages, one a line"),
        pytest.param(json.dumps([*MESSAGES]).encode() + b"\x00" * 64, id="NUL after it"),
        pytest.param(json.dumps([{"type": m["role"], "message": m} for m in MESSAGES]).encode(), id="array of entries"),
    ],
)
def test_a_file_that_is_not_line_delimited_is_read_too(data: bytes) -> None:
    """One array, pretty-printed values, and bare API messages all give their entries."""
    assert ["hi", "ho"] == texts(data)


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b'[{"role":"user","content":"hi"},{"role":"us', ["hi", (3, UNFINISHED)]),
        (
            b'[{"role":"user","content":"hi"},null,7,{"role":"user","content":"ho"}]',
            ["hi", (2, NO_RECORD), (3, NO_RECORD), "ho"],
        ),
        (
            b'[{"role":"user","content":"hi"},}{"role":"user","content":"ho"}]',
            ["hi", (2, "unreadable end of the file")],
        ),
        (
            b'[{"role":"user","content":"hi"},{"x":' + b"[" * 600 + b"]" * 600 + b'},{"role":"user","content":"ho"}]',
            ["hi", (2, "line nested too deeply"), "ho"],
        ),
        (b'[{"role":"user","content":"x \xff"},{"role":"user","content":"ho"}]', ["x \ufffd", "ho"]),
        (b"[7, torn\n" + ONE, [(1, TORN), "one"]),
        (b"[7, torn\n" + ONE[:9] + b"\n" + ONE, [(1, NO_RECORD), (1, TORN), (2, TORN), "one"]),
        (b"[]\n" + ONE, [(1, NO_RECORD), "one"]),
    ],
    ids=[
        "unfinished",
        "items that are no object",
        "broken in the middle",
        "too deep",
        "invalid UTF-8",
        "torn first line",
        "torn first lines",
        "empty array first",
    ],
)
def test_what_is_broken_in_such_a_file_is_counted(data: bytes, expected: list[Any]) -> None:
    """Items count as lines; a file that only looked like one document is read by lines after all."""
    assert expected == texts(data)


def test_a_line_of_60_mb_is_read_in_a_bounded_memory(tmp_path: Path) -> None:
    """A pasted image makes a line of any size; the buffer grows to it and no further copies are kept."""
    path = tmp_path / "long.jsonl"
    with open(path, "wb") as file:
        file.write(b'{"type":"user","message":{"content":[{"type":"image","source":{"data":"')
        file.writelines(itertools.repeat(b"A" * 1_000_000, 60))
        file.write(b'"}},{"type":"text","text":"what is it?"}]}}\n' + ONE)
    said = []
    tracemalloc.start()
    try:
        with open_transcript(path) as source:
            for entry in read_entries(source, path.stat().st_size):
                assert isinstance(entry, Entry)
                assert entry.message is not None
                content = entry.message.content
                said.append(
                    content if isinstance(content, str) else [b.text for b in content or () if isinstance(b, Block)]
                )
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert [[None, "what is it?"], "one"] == said
    assert peak < 260 * 1024 * 1024


def test_many_chunks_are_read_as_one() -> None:
    """Lines that lie across the edges of the read buffer come out whole, and in order."""
    lines = [as_line(user("x" * (n * 7919 % 40_000), uuid=f"u{n}")) for n in range(1, 300)]

    entries = [entry for entry in read_all(b"".join(lines)) if isinstance(entry, Entry)]

    assert [(f"u{n}", n * 7919 % 40_000) for n in range(1, 300)] == [
        (e.uuid, len(str(e.message.content if e.message else ""))) for e in entries
    ]


def test_only_what_was_there_at_the_start_is_read(tmp_path: Path) -> None:
    """The file is being appended to; what comes later belongs to the next render."""
    path = tmp_path / "t.jsonl"
    path.write_bytes(ONE)
    with open_transcript(path) as file:
        entries = read_entries(file, len(ONE))
        first = next(entries)
        with path.open("ab") as more:
            more.write(TWO)
        assert "one" == text_of(first)
        assert [] == list(entries)


@pytest.mark.parametrize("whole", [ONE, b"[" + ONE.rstrip() + b"]"], ids=["lines", "array"])
def test_a_file_that_shrinks_is_read_as_far_as_it_goes(tmp_path: Path, whole: bytes) -> None:
    """A file cut while it is read gives what is left, and says that an end was lost."""
    path = tmp_path / "t.jsonl"
    path.write_bytes(whole)
    with open_transcript(path) as file:
        result = [text_of(entry) for entry in read_entries(file, len(whole) + 5000)]

    assert "one" == result[0]
    assert "end lost while the file shrank" in [item[1] for item in result[1:]]


@pytest.mark.parametrize(
    "data", [as_file([user("x" * 300_000)] * 12), b"[" + b",".join([ONE.rstrip()] * 30_000) + b"]"]
)
def test_progress_runs_up_to_the_size(data: bytes) -> None:
    """The callback gets the bytes read so far, and in the end all of them."""
    told: list[int] = []

    list(read_entries(io.BytesIO(data), len(data), told.append))

    assert sorted(told) == told
    assert len(data) == told[-1]
    assert len(told) > 1


def test_a_missing_file_is_nothing_to_render(tmp_path: Path) -> None:
    """It may have been pruned: the caller can still ask the database."""
    with pytest.raises(NothingToRender, match="no such file"):
        open_transcript(tmp_path / "gone.jsonl")


def test_a_folder_or_a_pipe_is_no_transcript(tmp_path: Path) -> None:
    """A named pipe is refused at once, without waiting for a writer."""
    os.mkfifo(tmp_path / "pipe")

    with pytest.raises(SourceUnreadable, match="is a folder"):
        open_transcript(tmp_path)
    with pytest.raises(SourceUnreadable, match="not a regular file"):
        open_transcript(tmp_path / "pipe")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read anything")
def test_an_unreadable_file_says_why(tmp_path: Path) -> None:
    """The reason of the operating system is in the message."""
    path = tmp_path / "t.jsonl"
    path.write_bytes(ONE)
    path.chmod(0)

    with pytest.raises(SourceUnreadable, match="Permission denied"):
        open_transcript(path)


# Characters that are hard on a line reader, among ordinary ones.
_TEXT = st.text(
    st.one_of(st.characters(codec="utf-8"), st.sampled_from('"\\{}[],:\n\r\u2028\x00\ufeffé漢😀')), max_size=30
)
_ENTRIES = st.lists(st.tuples(st.sampled_from([user, assistant]), _TEXT), min_size=1, max_size=6)


def _entries(drawn: list[tuple[Any, str]]) -> list[dict[str, Any]]:
    return numbered([make(text) for make, text in drawn])


@settings(max_examples=150, deadline=None)
@given(_ENTRIES, st.data())
def test_a_cut_transcript_loses_at_most_its_last_line(drawn: list[tuple[Any, str]], data: st.DataObject) -> None:
    """However short a live file is cut, every complete line is still read, and no line is read wrong."""
    whole = b"".join(map(as_line, _entries(drawn)))
    cut = data.draw(st.integers(0, len(whole)))

    result = read_all(whole[:cut])

    found = [text_of(entry) or "" for entry in result if isinstance(entry, Entry)]
    assert [text for _, text in drawn][: len(found)] == found
    assert whole[:cut].count(b"\n") <= len(found)
    assert [UNFINISHED] * (len(result) - len(found)) == [item.reason for item in result if isinstance(item, Skipped)]


@settings(max_examples=150, deadline=None)
@given(_ENTRIES, st.data())
def test_a_record_cut_in_the_middle_takes_no_other_with_it(drawn: list[tuple[Any, str]], data: st.DataObject) -> None:
    """A write that broke off, so that the next record follows on the same line, costs only its own words."""
    lines = [as_line(entry) for entry in _entries(drawn)]
    torn = data.draw(st.integers(0, len(lines) - 1))
    cut = data.draw(st.integers(2, len(lines[torn]) - 2))
    follower = as_line(user("follower", uuid="f"))

    result = read_all(b"".join([*lines[:torn], lines[torn][:cut], follower, *lines[torn + 1 :]]))

    found = [text_of(entry) or "" for entry in result if isinstance(entry, Entry)]
    expected = [text for _, text in drawn]
    assert [*expected[:torn], "follower", *expected[torn + 1 :]] == found
    assert [(torn + 1, TORN)] == [(item.line, item.reason) for item in result if isinstance(item, Skipped)]


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=300), st.sampled_from([b"", ONE, b"[", b'{"type":"user","message":']))
def test_no_bytes_at_all_can_stop_the_reader(junk: bytes, before: bytes) -> None:
    """Any bytes give entries and counted skips, never an exception, and a whole line after them still comes out."""
    result = texts(before + junk + b"\n" + TWO)

    if not before.startswith((b"[", b"{\n")) and not junk.lstrip(b"\x00 \t\r\n\xef\xbb\xbf").startswith((b"[", b"{")):
        assert "two" == result[-1]


@pytest.mark.parametrize("form", ["[RECORD]", '{\n"a": 1}\nRECORD'])
def test_half_a_surrogate_pair_in_one_document_is_replaced(form: str) -> None:
    """ijson decodes strictly what its parser makes of an escape: a lone half must cost neither its text nor the file."""
    escaped = r"x \ud83d y \\\\ud83d \\\ud800 \ud83d\ude00 \udc00"
    data = form.replace("RECORD", f'{{"type":"user","uuid":"u","message":{{"role":"user","content":"{escaped}"}}}}')

    assert "x \ufffd y \\\\ud83d \\\ufffd \U0001f600 \ufffd" == text_of(read_all(data.encode())[-1])


@settings(deadline=None)
@given(
    st.lists(
        st.sampled_from(
            [r"\ud83d\ude00", r"\ud83d", r"\uDE00", "\\\\", r"\n", "x", r"\u0041", "é", r"\"", "\U0001f600"]
        )
    ),
    st.integers(1, 13),
)
def test_an_escape_may_lie_across_two_chunks_of_one_document(parts: list[str], chunk: int) -> None:
    """Wherever a chunk ends, the text is the one that the standard library reads, with lone halves replaced."""
    text = "".join(parts)
    data = f'["{text}"]'.encode()
    stream = _Bounded(io.BytesIO(data), len(data), None)
    whole = b"".join(iter(lambda: stream.read(chunk), b""))

    assert re.sub("[\ud800-\udfff]", "\ufffd", json.loads(data)[0]) == json.loads(whole)[0]


def test_a_mistyped_field_beside_half_a_surrogate_pair_costs_only_itself() -> None:
    """msgspec takes no lone surrogate, not even where it only looks at a type."""
    data = b'{"type":"user","uuid":5,"cwd":"\\ud800","message":{"role":"user","content":[{"type":"text","text":"a \\ud800"}]}}\n'
    (entry,) = read_all(data)

    assert isinstance(entry, Entry)
    assert (None, "\ufffd") == (entry.uuid, entry.cwd)
    assert entry.message is not None
    assert [Block(type="text", text="a \ufffd")] == entry.message.content
