"""Request streams as hypothesis strategies: nearly right ones, because wholly random bytes never get far."""

from __future__ import annotations

from hypothesis import strategies as st

batch_ids = st.one_of(
    st.integers(1, 20),
    st.sampled_from([9, 99, 9_990, 9_999, 99_995, 9_999_990, 10_000_000 - 3, 10**15 - 2, 2**63 - 5, 2**63 - 1]),
    st.integers(1, 2**63 - 1),
)

texts = st.one_of(
    st.sampled_from([b"", b"x", b":", b"a:b", b"\r", b"\r\r", b"\0", b"\v", "\u2028".encode(), b"__BATCH__:7:x"]),
    st.text(alphabet=st.characters(exclude_characters="\n", exclude_categories=["Cs"]), max_size=12).map(str.encode),
    st.integers(0, 300).map(lambda size: b"y" * size),
)

not_texts = st.sampled_from(
    [b"\xff", b"a\x80b", b"\xc3", b"\xed\xa0\x80", b"\xc0\xaf", b"\xf4\x90\x80\x80", b"\xe2\x82"]
)

odd_ids = st.sampled_from(
    [
        b"0",
        b"-1",
        b"+1",
        b" 1",
        b"1 ",
        b"1\t",
        b"1_000",
        b"",
        b"x",
        b"007",
        b"0000000000000000000000007",
        b"1.0",
        b"9223372036854775808",
        b"99999999999999999999",
        "١".encode(),
        b"0" * 30,
        b"1\r",
        b"\r1",
    ]
)

line_ends = st.sampled_from([b"\n", b"\n", b"\n", b"\r\n", b"\r\r\n"])

odd_lines = st.one_of(
    st.builds(lambda i, e: b"__COMMIT__:%d%b" % (i, e), batch_ids, line_ends),
    st.builds(lambda i, e: b"__COMMIT__:%b%b" % (i, e), odd_ids, line_ends),
    st.builds(lambda i, p, e: b"__BATCH__:%b:%b%b" % (i, p, e), odd_ids, texts, line_ends),
    st.builds(lambda i, p, e: b"__BATCH__:%d:%b%b" % (i, p, e), batch_ids, st.one_of(texts, not_texts), line_ends),
    st.builds(
        lambda head, e: head + e,
        st.sampled_from(
            [
                b"",
                b"\r",
                b"__BATCH__",
                b"__BATCH__:",
                b"__BATCH__:5",
                b"__BATCH__::p",
                b"__batch__:5:p",
                b"_BATCH__:5:p",
                b" __BATCH__:5:p",
                b"__COMMIT__",
                b"__COMMIT__:",
                b"__COMMIT__:5:x",
                b"__PING__",
                b"__AUTH__:secret",
                b"__BATCH__:12345",
                b"__BATCH__:1234567890123456789",
                b"\xff\xfe",
            ]
        ),
        line_ends,
    ),
    st.binary(max_size=20).map(lambda raw: raw + b"\n"),
)


@st.composite
def runs(draw: st.DrawFn) -> bytes:
    """Many regular lines: ids rising by a step, in a given width, with equal or varied payloads."""
    first = draw(batch_ids)
    step = draw(st.sampled_from([1, 1, 1, 2, 1000, -1, 0]))
    count = draw(st.integers(1, 120))
    width = draw(st.sampled_from([0, 0, 0, 7, 12, 19, 21]))
    end = draw(line_ends)
    payloads = draw(st.lists(texts, min_size=1, max_size=3))
    ids = list(range(first, first + step * count, step)) if step else [first] * count
    return b"".join(
        b"__BATCH__:%0*d:%b%b" % (width, batch_id, payloads[n % len(payloads)], end)
        for n, batch_id in enumerate(ids)
        if 1 <= batch_id < 2**63
    )


@st.composite
def streams(draw: st.DrawFn) -> bytes:
    """Runs with odd lines between them, a few bytes damaged, perhaps without a last line end."""
    parts = draw(st.lists(st.one_of(runs(), odd_lines), max_size=8))
    stream = bytearray(b"".join(parts))
    for place, value in draw(st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 255)), max_size=3)):
        if stream:
            stream[place % len(stream)] = value
    return bytes(stream) + draw(st.sampled_from([b"", b"", b"__BATCH__:1:cut off"]))
