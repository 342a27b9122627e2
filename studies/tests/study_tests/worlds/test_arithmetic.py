import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.config import InputError
from holdfast.diagnostics.attempts import lexical_splitter
from holdfast.judging.extractors import numbers
from holdfast.records import Role
from holdfast.tokens import tokenize
from holdfast.worlds import world_traces
from holdfast_studies.worlds.arithmetic import ArithmeticWorld, Product, Size
from holdfast_studies.worlds.arithmetic_text import text_problems, text_rows
from holdfast_studies.worlds.arithmetic_tokenizer import arithmetic_tokenizer
from holdfast_studies.worlds.arithmetic_writing import Mix, Writer, corpus, plain_sft, problems, reflection_sft, write

MICRO = ArithmeticWorld()
SCHOOL = ArithmeticWorld(base=10, largest=Size(9, 9), max_attempts=3, fused=False)
BESIDE = ArithmeticWorld(base=5, max_attempts=3, fused=False, beside=True)
WORLDS = st.sampled_from([MICRO, SCHOOL, BESIDE])
SEEDS = st.integers(0, 10**6)


def text_of(segments):
    return "".join(part.text for part in segments)


def drawn(world, seed):
    rng = random.Random(seed)
    size = Size(rng.randint(1, world.largest.m), rng.randint(1, world.largest.n))
    return world.draw(size, rng), rng


def test_by_hand():
    """12 * 34 = 408 in base 10, digits backwards: rows 2*4=8, 1*4=4; then 4 + 2*3 = 10 (write 0, carry 1), 1*3 + 1 = 4."""
    product = Product((2, 1), (4, 3))
    assert SCHOOL.steps(product) == [8, 4, 10, 4]
    assert SCHOOL.answer([8, 4, 10, 4], Size(2, 2)) == 408
    assert SCHOOL.spell([8, 4], 2, "a") == "a0.0 8 a0.1 4"
    assert MICRO.spell([8, 4], 2, "a") == "a0.0:8 a0.1:4"
    assert MICRO.prompt(Product((3, 1), (2,))) == "x0:3 x1:1 m2 y0:2 n1"
    assert Product.read("x0:3 x1:1 m2 y0:2 n1") == Product((3, 1), (2,))


@given(WORLDS, SEEDS)
def test_steps_come_to_the_product(world, seed):
    product, _ = drawn(world, seed)
    steps = world.steps(product)
    assert world.answer(steps, product.size) == world.value(product)
    assert max(steps) < world.base**2


@given(WORLDS, SEEDS, st.sampled_from(["honest", "show", "none"]))
def test_what_writers_write_reads_back(world, seed, checks):
    product, rng = drawn(world, seed)
    segments = write(world, product, Writer(0.2, checks), rng)
    reading = world.read(text_of(segments), product.size)
    assert len(reading.answers) == sum(part.role is Role.SAMPLE for part in segments)
    assert None not in reading.answers
    if checks == "honest" and reading.stopped:
        assert reading.answers[-1] == world.value(product)
    if checks != "honest":
        assert reading.stopped
        assert len(reading.answers) == 1


@given(WORLDS, SEEDS)
def test_tokens_say_what_the_words_say(world, seed):
    tokenizer = TOKENIZERS[world]
    product, rng = drawn(world, seed)
    trace = corpus(world, [product.size], 1, seed=rng.randint(0, 99))[0]
    row = tokenize(trace, tokenizer)
    assert tokenizer.unk_token_id not in row.ids
    said = tokenizer.decode([i for i, role in zip(row.ids, row.roles, strict=True) if role != Role.PROMPT][:-1])
    assert said == trace.turns[1].visible
    assert row.roles[-1] == Role.DECISION


TOKENIZERS = {world: arithmetic_tokenizer(world) for world in (MICRO, SCHOOL, BESIDE)}


def test_reading_is_forgiving_but_exact():
    assert MICRO.read("a0.0:8 a0.1:1 check a0.0:8 again b0.0:8").answers == (13 - 5, 8)
    assert MICRO.read("a0.0:8 a0.1:1 stop", Size(3, 1)).answers == (None,)
    assert MICRO.read("a0.1:8 stop").answers == (None,)
    assert MICRO.read("nonsense").answers == ()
    assert MICRO.read("a0.0:8").stopped is False


def test_a_check_beside_the_attempt():
    """12 * 4 in base 10; the second step slips to 7, so the check ends there."""
    world = ArithmeticWorld(base=10, fused=False, beside=True)
    assert world.spell_check([8, 4], [8, 7], 2, "a") == "a0.0 8 8 a0.1 7 4"
    text = f"{world.spell([8, 7], 2, 'a')} check a0.0 8 8 a0.1 7 4 again {world.spell([8, 4], 2, 'b')} stop"
    assert world.read(text) == ((78, 48), True)
    with pytest.raises(InputError, match="fused: false"):
        ArithmeticWorld(beside=True)


@given(WORLDS, SEEDS)
def test_the_longest_response_is_as_long_as_that(world, seed):
    """An attempt that slips in its last step only is checked to the end."""
    product, _ = drawn(world, seed)
    right, m = world.steps(product), product.size.m
    wrong = [*right[:-1], (right[-1] + 1) % world.base**2]
    parts = [f"{world.spell(wrong, m, lane)} check {world.spell_check(right, wrong, m, lane)}" for lane in "abcd"]
    words = " again ".join(parts[: world.max_attempts]).split()
    assert len(words) + 2 == world.longest_response(product.size)  # the last verdict, and the end token


def test_rows_for_sft():
    sizes = [Size(4, 1), Size(5, 1)]
    plain = [MICRO.read(trace.turns[1].visible) for trace in plain_sft(MICRO, sizes, 50)]
    assert all(len(each.answers) == 1 and each.stopped for each in plain)
    rows = reflection_sft(MICRO, sizes, 200, corrective=0.5)
    first_wrong = [len(MICRO.read(row.turns[1].visible).answers) > 1 for row in rows]
    assert 0.4 < sum(first_wrong) / 200 < 0.6
    assert not any(
        len(MICRO.read(row.turns[1].visible).answers) > 1 for row in reflection_sft(MICRO, sizes, 50, corrective=0)
    )


def test_corpus_mixes_writers():
    rows = corpus(MICRO, [Size(4, 1)], 400, mix=Mix(slip=0.1, honest=0.5, show=0.25))
    checked = sum("check" in row.turns[1].visible for row in rows) / 400
    assert 0.68 < checked < 0.82


def test_problems_are_repeatable_and_differ_by_seed():
    sizes = [Size(4, 1), Size(5, 1)]
    assert problems(MICRO, sizes, 6, seed="a") == problems(MICRO, sizes, 6, seed="a")
    assert problems(MICRO, sizes, 6, seed="a") != problems(MICRO, sizes, 6, seed="b")
    assert [each.size.m for each in problems(MICRO, sizes, 4, seed="a")] == [4, 5, 4, 5]


def test_sizes_are_read_or_refused():
    assert Size.read("4x5") == Size(4, 5)
    for bad in ("4", "0x3", "axb"):
        with pytest.raises(InputError, match="such as 4x5"):
            Size.read(bad)
    with pytest.raises(InputError, match="goes up to 9x1"):
        MICRO.draw(Size(10, 1), random.Random(0))


def test_the_papers_own_form():
    trace = text_rows("plain", [Size(2, 2)], 1)[0]
    asked, answered = trace.turns[0].visible, trace.turns[1].visible
    a, b = (int(word) for word in asked.removeprefix("Calculate ").removesuffix(". Think step by step.").split(" * "))
    assert answered.endswith(f"The answer is {a * b}.")
    split = lexical_splitter(numbers)
    for row in text_rows("reflection", [Size(4, 5), Size(5, 4)], 40):
        a, b = (int(word) for word in row.turns[0].visible.split(".")[0].removeprefix("Calculate ").split(" * "))
        found = split(row.turns[1].visible, True)
        assert len(found.answers) == 2
        assert found.answers[-1] == str(a * b)
    wrong_first = [
        split(row.turns[1].visible, True) for row in text_rows("reflection", [Size(3, 3)], 30, corrective=1.0)
    ]
    assert all(found.answers[0] != found.answers[1] for found in wrong_first)
    assert text_problems([Size(3, 3)], 2)[0][0].startswith("Calculate ")


def test_rows_by_name():
    assert len(world_traces("world:arithmetic/text/reflection/4x5+5x4", limit=3).traces) == 3
    assert world_traces("world:arithmetic/plain/4x1", limit=2).format == "world"
    for bad in ("world:arithmetic/plain", "world:arithmetic/text/corpus/4x4", "world:arithmetic/odd/4x4"):
        with pytest.raises(InputError, match="expected world:arithmetic"):
            world_traces(bad)
