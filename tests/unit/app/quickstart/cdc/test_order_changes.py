"""The transactions of the quickstart's orders, applied to a table that is a dict."""

from __future__ import annotations

from spark_connect_rt.app.quickstart.cdc.order_changes import COLUMNS, OrderBook, Statement, book_of

Table = dict[int, int]


def apply(table: Table, statement: Statement) -> str:
    """Apply a statement to a table (key -> change); return its kind."""
    sql, values = statement
    if sql.startswith("INSERT"):
        assert values[0] not in table, "a key is inserted once"
        table[values[0]] = values[-1]
        return "insert"
    if sql.startswith("DELETE"):
        del table[values[0]]
        return "delete"
    if " SET id = " in sql:
        del table[values[2]]
        assert values[0] not in table
        table[values[0]] = values[1]
        return "new key"
    assert values[-1] in table, "a row is updated that is there"
    table[values[-1]] = values[-2]
    return "update"


def test_transactions_insert_update_delete_and_move_rows_that_are_there() -> None:
    book, table = OrderBook(list(range(1, 101))), dict.fromkeys(range(1, 101), 0)
    for number in range(1, 201):
        kinds = [apply(table, statement) for statement in book.next_transaction()]
        assert set(kinds) == {"insert", "update", "delete", "new key"}
        assert max(table.values()) == number, "the highest number says which transactions a copy has"
        assert sorted(book.keys) == sorted(table)


def test_an_empty_table_gets_rows() -> None:
    table: Table = {}
    book = OrderBook()
    kinds = [apply(table, statement) for statement in book.next_transaction()]
    assert set(kinds) == {"insert"}
    assert sorted(book.keys) == sorted(table) == [1, 2, 3, 4, 5]


def test_a_later_run_continues_with_the_rows_and_the_number_that_are_there() -> None:
    rows = [tuple({"id": key, "change": change}.get(name, "") for name in COLUMNS) for key, change in ((7, 3), (9, 5))]
    book = book_of(rows)
    assert (book.keys, book.number) == ([7, 9], 5)
    assert book_of([]).number == 0
