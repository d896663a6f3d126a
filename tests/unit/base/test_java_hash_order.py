from hypothesis import given
from hypothesis import strategies as st

from spark_connect_rt.base.java_hash_order import (
    NamesInHashOrder,
    hash_order_of_copy,
    in_java_hash_order,
    java_hash_order,
    java_string_hash,
)


def test_hash_codes_are_javas() -> None:
    assert java_string_hash("") == 0
    assert java_string_hash("hello") == 99162322
    assert java_string_hash("polygenelubricants") == 0x80000000
    assert java_string_hash("😀") == 1772899  # two UTF-16 units


def test_orders_known_from_java() -> None:
    assert java_hash_order(["topic", "partition", "cluster"]) == ["cluster", "partition", "topic"]
    assert java_hash_order(["kafka_topic", "kafka_partition"]) == ["kafka_partition", "kafka_topic"]


def test_within_a_bucket_insertion_order_holds() -> None:
    assert java_string_hash("Aa") == java_string_hash("BB")
    assert java_hash_order(["BB", "Aa"]) == ["BB", "Aa"]
    assert java_hash_order(["Aa", "BB"]) == ["Aa", "BB"]


def test_single_letters_walk_the_buckets_and_the_table_grows_past_twelve() -> None:
    twelve = [chr(ord("j") + n) for n in range(12)]  # j=106 is bucket 10 of 16
    assert "".join(java_hash_order(twelve)) == "pqrstujklmno"
    thirteen = [*twelve, "i"]  # 32 buckets: i=105 is bucket 9
    assert "".join(java_hash_order(thirteen)) == "ijklmnopqrstu"


def test_a_mapping_keeps_its_values() -> None:
    assert list(in_java_hash_order({"topic": 1, "cluster": 2}).items()) == [("cluster", 2), ("topic", 1)]


@given(st.lists(st.lists(st.text(max_size=4), max_size=40), min_size=1, max_size=8))
def test_names_that_come_and_go_are_ordered_as_if_they_had_always_been_there(steps: list[list[str]]) -> None:
    order, now = NamesInHashOrder(), set[str]()
    for number, step in enumerate(steps):
        now = now ^ set(step) if number % 3 == 2 else now | set(step)
        names = sorted(now)
        assert order.of(names) == hash_order_of_copy(names, names)
