"""Queries that mean the same, written differently; queries that do not; and queries that nobody can run."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.audits.suites.sql_database import Database, fill, hints, read_schema
from holdfast.audits.suites.sql_meaning import find_query, same_meaning

SHOPS = "CREATE TABLE shop (id INTEGER, name VARCHAR, city VARCHAR, size INTEGER)"
BOTH = f"{SHOPS}; CREATE TABLE sale (shop_id INTEGER, amount INTEGER, day VARCHAR)"
GLENN = "SELECT name FROM shop WHERE city = 'Glenn'"
BIG = "SELECT name FROM shop WHERE size > 20"
JOINED = "SELECT T1.name FROM shop AS T1 JOIN sale AS T2 ON T1.id = T2.shop_id WHERE T2.amount >= 100"
GROUPED = "SELECT city, COUNT(*) FROM shop GROUP BY city HAVING COUNT(*) > 2"
TOP = "SELECT name FROM shop ORDER BY size DESC LIMIT 3"


@pytest.mark.parametrize(
    ("reference", "query"),
    [
        (GLENN, GLENN),
        (GLENN, "select NAME from Shop where CITY='Glenn'"),
        (GLENN, 'SELECT name FROM shop WHERE city = "Glenn"'),
        (GLENN, "SELECT s.name FROM shop s WHERE 'Glenn' = s.city"),
        (GLENN, "SELECT name FROM shop WHERE city IN ('Glenn')"),
        (BIG, "SELECT name FROM shop WHERE NOT size <= 20"),
        (BIG, "SELECT name FROM shop WHERE size >= 21"),  # the column holds whole numbers
        (JOINED, "SELECT s.name FROM sale x, shop s WHERE x.shop_id = s.id AND NOT x.amount < 100"),
        (GROUPED, "SELECT city, COUNT(city) FROM shop GROUP BY city HAVING COUNT(*) >= 3"),
        (GROUPED, "WITH c AS (SELECT city, COUNT(*) n FROM shop GROUP BY city) SELECT city, n FROM c WHERE n > 2"),
        (TOP, "SELECT name FROM shop ORDER BY -size LIMIT 3"),
        ("SELECT DISTINCT city FROM shop", "SELECT city FROM shop GROUP BY city"),
        ("SELECT AVG(size) FROM shop", "SELECT SUM(size) * 1.0 / COUNT(*) FROM shop"),
        ("SELECT MIN(size) FROM shop", "SELECT size FROM shop ORDER BY size LIMIT 1"),
        (
            "SELECT name FROM shop EXCEPT SELECT T1.name FROM shop AS T1 JOIN sale AS T2 ON T1.id = T2.shop_id",
            "SELECT DISTINCT name FROM shop WHERE NOT name IN (SELECT name FROM shop WHERE id IN (SELECT shop_id FROM sale))",
        ),
    ],
)
def test_equal_though_written_differently(reference: str, query: str) -> None:
    assert same_meaning(reference, query, BOTH) == "equal"


@pytest.mark.parametrize(
    ("reference", "query"),
    [
        (GLENN, "SELECT name FROM shop WHERE city = 'Glen'"),
        (GLENN, "SELECT name FROM shop WHERE city LIKE 'Glenn%'"),
        (GLENN, "SELECT DISTINCT name FROM shop WHERE city = 'Glenn'"),
        (GLENN, "SELECT name, city FROM shop WHERE city = 'Glenn'"),
        (BIG, "SELECT name FROM shop WHERE size >= 20"),
        (BIG, "SELECT name FROM shop"),
        (BIG, "SELECT name FROM shop WHERE size > 100000000000000000000"),  # beyond sqlite's integers
        (BIG, "SELECT name FROM shop WHERE size > 1e999"),
        (JOINED, "SELECT T1.name FROM shop AS T1 JOIN sale AS T2 ON T1.id = T2.shop_id WHERE T2.amount > 100"),
        (JOINED, "SELECT DISTINCT T1.name FROM shop T1 JOIN sale T2 ON T1.id = T2.shop_id WHERE T2.amount >= 100"),
        (GROUPED, "SELECT city, COUNT(*) FROM shop GROUP BY city HAVING COUNT(*) > 3"),
        (TOP, "SELECT name FROM shop ORDER BY size LIMIT 3"),
        (TOP, "SELECT name FROM shop LIMIT 3"),
        ("SELECT name FROM shop ORDER BY name", "SELECT name FROM shop"),
        ("SELECT name FROM shop ORDER BY size", "SELECT name FROM shop ORDER BY size DESC"),
        ("SELECT MAX(size) FROM shop", "SELECT MIN(size) FROM shop"),
        ("SELECT COUNT(*) FROM shop", "SELECT COUNT(DISTINCT name) FROM shop"),
    ],
)
def test_different(reference: str, query: str) -> None:
    assert same_meaning(reference, query, BOTH) == "different"


@pytest.mark.parametrize(
    "query",
    [
        "SELECT nam FROM shop",
        "SELECT name FROM shop WHERE size > 1e",
        "SELECT FROM WHERE",
        "SELECT name FROM market",
        "DELETE FROM shop",
        "DROP TABLE shop",
        "ATTACH DATABASE 'stolen.db' AS x",
        "PRAGMA table_info(shop)",
        "SELECT load_extension('evil')",
        "SELECT zeroblob(1000000000)",
        "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT COUNT(*) FROM n",
        "SELECT " + "(" * 3000 + "1" + ")" * 3000,
        "SELECT name FROM shop WHERE " + " OR ".join(f"size = {i}" for i in range(4000)),
    ],
)
def test_what_cannot_be_run_is_broken_and_does_no_harm(query: str, tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One of them would never end by itself."""
    monkeypatch.chdir(tmp_path)
    assert same_meaning(GLENN, query, SHOPS) == "broken"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("reference", "schema"),
    [
        ("SELECT owner FROM shop", SHOPS),  # the reference asks for a column that is not there
        (GLENN, "CREATE TABLE shop ((("),
        (GLENN, f"{SHOPS}; CREATE TABLE sqlite_shop (id INTEGER)"),  # a name that sqlite keeps for itself
        (GLENN, f"{SHOPS}; CREATE TABLE link (FOREIGN KEY (id) REFERENCES shop (id))"),  # no column
        ("SELECT 1", SHOPS),  # the same whatever the rows: agreeing with it is worth nothing
    ],
)
def test_what_the_reference_cannot_decide_is_never_right(reference: str, schema: str) -> None:
    assert same_meaning(reference, "SELECT 0 + 1", schema) == "undecided"


def test_a_column_outside_the_group_and_ties_do_not_decide() -> None:
    """sqlite takes any row's name, so which one depends on how the rows are stored: no ground to call a query wrong."""
    loose = "SELECT city, name FROM shop GROUP BY city"
    assert same_meaning(loose, "SELECT city, MAX(name) FROM shop GROUP BY city", SHOPS) != "equal"
    assert same_meaning(loose, loose + " ", SHOPS) == "equal"


def test_null_is_there_when_asked_for() -> None:
    missing = "SELECT name FROM shop WHERE city IS NULL"
    assert same_meaning(missing, "SELECT name FROM shop WHERE NOT city IS NOT NULL", SHOPS) == "equal"
    assert same_meaning(missing, "SELECT name FROM shop WHERE city = ''", SHOPS) == "different"


def test_a_table_that_is_there_twice_has_the_columns_of_both() -> None:
    schema = read_schema("CREATE TABLE a (x INTEGER, y VARCHAR); CREATE TABLE A (x INTEGER, z INTEGER)")
    assert schema == {"a": {"x": "INT", "y": "VARCHAR", "z": "INT"}}


def test_other_statements_and_odd_types_are_no_obstacle() -> None:
    schema = f"{SHOPS.replace('VARCHAR', 'ENUM(1, 2)', 1)}; CREATE INDEX i ON shop (name); CREATE TABLE b AS SELECT 1"
    assert same_meaning(GLENN, "SELECT name FROM shop WHERE city IN ('Glenn')", schema) == "equal"


def test_databases_are_the_same_every_time_and_hold_what_is_asked_for() -> None:
    import sqlglot

    schema = read_schema(SHOPS)
    known = hints([sqlglot.parse_one("SELECT 1 FROM shop WHERE size > 20 AND name LIKE '%ee%'")], schema)
    assert set(known.values["size"]) >= {19, 20, 21}
    assert {"ee", "aeea", "eez"} <= set(known.values["name"])
    assert [fill(schema, known, seed) for seed in range(5)] == [fill(schema, known, seed) for seed in range(5)]
    sizes = {row[3] for seed in range(20) for row in fill(schema, known, seed)["shop"]}
    assert {19, 20, 21} <= sizes
    assert Database(schema, fill(schema, known, 0)).run("INSERT INTO shop VALUES (1, 2, 3, 4)") is None


@pytest.mark.parametrize(
    ("answer", "query"),
    [
        ("SELECT a FROM b", "SELECT a FROM b"),
        ("Sure! Here it is:\n```sql\nSELECT a\nFROM b;\n```\nThis works with all tables.", "SELECT a\nFROM b"),
        ("The query is: SELECT a FROM b; it selects a", "SELECT a FROM b"),
        ("with pleasure: select a from b\n\nIt selects a.", "select a from b"),
        ("WITH x AS (SELECT 1) SELECT * FROM x", "WITH x AS (SELECT 1) SELECT * FROM x"),
        ("SELECT a FROM b WHERE c = 'x;y';", "SELECT a FROM b WHERE c = 'x;y'"),
        ("SELECT a FROM b WHERE c = 'it", "SELECT a FROM b WHERE c = 'it"),
        ("I cannot do that.", None),
        ("", None),
    ],
)
def test_the_query_in_an_answer(answer: str, query: str | None) -> None:
    assert find_query(answer) == query


@pytest.mark.parametrize("noise", ["'", '"', "'\"", "with x (", "```", "(", "\n"])
def test_long_nonsense_is_read_to_its_end(noise: str) -> None:
    """A million characters: a pattern that goes back and forth in them would take days."""
    find_query("SELECT " + noise * (1_000_000 // len(noise)))
    find_query(noise * (1_000_000 // len(noise)))


def test_a_model_that_repeats_itself_does_not_stop_the_audit() -> None:
    """To read forty joins without a condition takes sqlglot years. Right queries with many joins are still told."""
    tables = "CREATE TABLE t (a INTEGER)"
    assert same_meaning("SELECT a FROM t", "SELECT a FROM t" + " JOIN t AS b" * 40, tables) == "broken"
    joins = " ".join(f"JOIN t AS t{n} ON t0.a = t{n}.a" for n in range(1, 14))
    query = f"SELECT t0.a FROM t AS t0 {joins} ORDER BY t0.a"
    assert same_meaning(query, query.lower(), tables) == "equal"


@settings(max_examples=200)
@given(st.text(alphabet="SELECTWIHAsfrom '\"`;()\n*%", max_size=200))
def test_any_text_has_a_query_or_none(text: str) -> None:
    query = find_query(text)
    assert query is None or query in text
