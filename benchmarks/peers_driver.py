"""Runs in the peers' environment: builds a store of each kind from the same rows and asks it, a JSON line at a time.

It imports nothing of ours, and its libraries by name alone, since our environment does not have them.
"""

import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

import numpy as np

K = 10
_BATCH = 5_000
_CACHE = 2 << 30


class Rows:
    """What is stored: a vector, a tenant, a signal and flags for each row, all numbers; `flags` are named columns."""

    def __init__(self, file: Path) -> None:
        stored = np.load(file)
        self.vectors = stored["vectors"]
        self.tenant = stored["tenant"]
        self.signal = stored["signal"]
        self.flag_names = [str(name) for name in stored["flag_names"]]
        self.flags = stored["flags"]
        self.questions: list[dict[str, Any]] = json.loads(str(stored["questions"]))
        self.asked = stored["asked"]

    def __len__(self) -> int:
        return len(self.vectors)

    def columns(self) -> dict[str, Any]:
        """The columns to filter by, all of them integers: not every store has booleans."""
        flags = {name: self.flags[:, number].astype(np.int64) for number, name in enumerate(self.flag_names)}
        return {"tenant": self.tenant.astype(np.int64), "signal": self.signal.astype(np.int64), **flags}

    def batches(self) -> Iterator[slice]:
        """The rows, some thousands at a time."""
        for start in range(0, len(self), _BATCH):
            yield slice(start, start + _BATCH)

    def allowed(self, question: Mapping[str, Any]) -> Any:
        """Which rows the filter of a question lets through."""
        mask = self.tenant == question["tenant"]
        if question["signals"]:
            mask &= np.isin(self.signal, question["signals"])
        for name in question["flags"]:
            mask &= self.flags[:, self.flag_names.index(name)]
        return mask


class Engine(Protocol):
    """One store. `search` gives the numbers of the rows found, best first."""

    def build(self, rows: Rows, directory: Path) -> None: ...

    def search(self, question: Mapping[str, Any], vector: Any) -> list[int]: ...


class Numpy:
    """What is right."""

    def build(self, rows: Rows, directory: Path) -> None:
        self._rows = rows

    def search(self, question: Mapping[str, Any], vector: Any) -> list[int]:
        allowed = np.flatnonzero(self._rows.allowed(question))
        cosines = self._rows.vectors[allowed] @ vector
        found: list[int] = allowed[np.argsort(-cosines, kind="stable")[:K]].tolist()
        return found


class Faiss:
    """A flat index in memory; it has no filters, so numpy makes a mask of the rows."""

    def build(self, rows: Rows, directory: Path) -> None:
        self._faiss = import_module("faiss")
        self._faiss.omp_set_num_threads(1)
        self._rows = rows
        self._index = self._faiss.IndexFlatIP(rows.vectors.shape[1])
        self._index.add(rows.vectors)

    def search(self, question: Mapping[str, Any], vector: Any) -> list[int]:
        mask = np.packbits(self._rows.allowed(question), bitorder="little")
        chosen = self._faiss.SearchParameters(sel=self._faiss.IDSelectorBitmap(mask))
        _, found = self._index.search(vector[None], K, params=chosen)
        return [int(number) for number in found[0] if number >= 0]


class Sqlite:
    """A table in a file with an index on tenant and signal, and sqlite-vec's distance function."""

    def build(self, rows: Rows, directory: Path) -> None:
        self._database = _sqlite(directory / "plain.db")
        names = list(rows.columns())
        self._database.execute(f"create table stored (id integer primary key, {', '.join(names)}, vector blob)")
        self._database.executemany(f"insert into stored values (?, {'?, ' * len(names)}?)", _records(rows))
        self._database.execute("create index by_signal on stored (tenant, signal)")
        self._database.execute("analyze")
        self._database.commit()

    def search(self, question: Mapping[str, Any], vector: Any) -> list[int]:
        statement = (
            f"select id from stored where {_condition(question)} order by vec_distance_cosine(vector, ?) limit ?"
        )
        return [row[0] for row in self._database.execute(statement, (vector.tobytes(), K))]


class SqliteVec:
    """sqlite-vec's own table, partitioned by tenant, filtered by its metadata columns."""

    def build(self, rows: Rows, directory: Path) -> None:
        self._database = _sqlite(directory / "vec0.db")
        flags = "".join(f", {name} integer" for name in rows.flag_names)
        self._database.execute(
            "create virtual table stored using vec0(id integer primary key, tenant integer partition key, "
            f"signal integer{flags}, vector float[{rows.vectors.shape[1]}] distance_metric=cosine)"
        )
        names = list(rows.columns())
        self._database.executemany(
            f"insert into stored (id, {', '.join(names)}, vector) values (?, {'?, ' * len(names)}?)", _records(rows)
        )
        self._database.commit()

    def search(self, question: Mapping[str, Any], vector: Any) -> list[int]:
        statement = f"select id from stored where vector match ? and k = ? and {_condition(question)} order by distance"
        return [row[0] for row in self._database.execute(statement, (vector.tobytes(), K))]


class LanceDB:
    """A table in files with scalar indexes on what is filtered by, searched without a vector index: exactly."""

    def build(self, rows: Rows, directory: Path) -> None:
        arrow = import_module("pyarrow")
        width = rows.vectors.shape[1]
        vectors = arrow.FixedSizeListArray.from_arrays(arrow.array(rows.vectors.ravel()), width)
        columns = {name: arrow.array(values) for name, values in rows.columns().items()}
        data = arrow.table({"id": arrow.array(np.arange(len(rows))), **columns, "vector": vectors})
        self._table = import_module("lancedb").connect(directory / "lance").create_table("stored", data=data)
        for name in ("tenant", "signal"):
            self._table.create_scalar_index(name, index_type="BTREE")
        for name in rows.flag_names:
            self._table.create_scalar_index(name, index_type="BITMAP")

    def search(self, question: Mapping[str, Any], vector: Any) -> list[int]:
        query = self._table.search(vector).distance_type("cosine").where(_condition(question), prefilter=True)
        found: list[int] = query.select(["id"]).limit(K).to_arrow()["id"].to_pylist()
        return found


class Chroma:
    """A collection in files, with the HNSW index that it always has."""

    def build(self, rows: Rows, directory: Path) -> None:
        client = import_module("chromadb").PersistentClient(path=str(directory / "chroma"))
        self._collection = client.create_collection("stored", configuration={"hnsw": {"space": "cosine"}})
        for part in rows.batches():
            numbers = list(range(len(rows))[part])
            self._collection.add(
                ids=[str(number) for number in numbers],
                embeddings=rows.vectors[part],
                metadatas=_payloads(rows, part),
            )

    def search(self, question: Mapping[str, Any], vector: Any) -> list[int]:
        conditions: list[dict[str, Any]] = [{"tenant": question["tenant"]}, *({name: 1} for name in question["flags"])]
        if question["signals"]:
            conditions.append({"signal": {"$in": question["signals"]}})
        where = {"$and": conditions} if len(conditions) > 1 else conditions[0]
        found = self._collection.query(query_embeddings=vector[None], where=where, n_results=K, include=[])
        return [int(each) for each in found["ids"][0]]


class QdrantLocal:
    """qdrant-client's own implementation in Python, in files; a Qdrant server is another matter."""

    def build(self, rows: Rows, directory: Path) -> None:
        self._client = import_module("qdrant_client").QdrantClient(path=str(directory / "qdrant"))
        self._models = import_module("qdrant_client.models")
        space = self._models.VectorParams(size=rows.vectors.shape[1], distance=self._models.Distance.COSINE)
        self._client.create_collection("stored", vectors_config=space)
        for part in rows.batches():
            numbers = list(range(len(rows))[part])
            points = self._models.Batch(
                ids=numbers,
                vectors=rows.vectors[part].tolist(),
                payloads=_payloads(rows, part),
            )
            self._client.upsert("stored", points=points)

    def search(self, question: Mapping[str, Any], vector: Any) -> list[int]:
        wanted = {"tenant": [question["tenant"]], **{name: [1] for name in question["flags"]}}
        if question["signals"]:
            wanted["signal"] = question["signals"]
        must = [
            self._models.FieldCondition(key=key, match=self._models.MatchAny(any=values))
            for key, values in wanted.items()
        ]
        found = self._client.query_points(
            "stored", query=vector.tolist(), query_filter=self._models.Filter(must=must), limit=K, with_payload=False
        )
        return [point.id for point in found.points]


ENGINES: dict[str, Callable[[], Engine]] = {
    "numpy": Numpy,
    "faiss with a mask": Faiss,
    "SQLite, sqlite-vec function": Sqlite,
    "sqlite-vec vec0": SqliteVec,
    "LanceDB": LanceDB,
    "Chroma": Chroma,
    "qdrant-client local": QdrantLocal,
}


def _sqlite(file: Path) -> Any:
    # Many builds of Python leave loadable extensions out of their own sqlite3.
    database = import_module("pysqlite3").connect(file)
    database.enable_load_extension(True)
    import_module("sqlite_vec").load(database)
    # Its caches are small by default; nobody here shall be slowed by too little memory.
    database.execute(f"pragma cache_size = -{_CACHE >> 10}")
    database.execute(f"pragma mmap_size = {_CACHE}")
    return database


def _records(rows: Rows) -> Iterator[tuple[Any, ...]]:
    columns = [values.tolist() for values in rows.columns().values()]
    for number, values in enumerate(zip(*columns, strict=True)):
        yield number, *values, rows.vectors[number].tobytes()


def _payloads(rows: Rows, part: slice) -> list[dict[str, int]]:
    columns = {name: values[part].tolist() for name, values in rows.columns().items()}
    return [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]


def _condition(question: Mapping[str, Any]) -> str:
    """The filter as SQL; all of its values are numbers."""
    conditions = [f"tenant = {question['tenant']}", *(f"{name} = 1" for name in question["flags"])]
    if question["signals"]:
        conditions.append(f"signal in ({', '.join(map(str, question['signals']))})")
    return " and ".join(conditions)


class Driver:
    """What can be asked for by line."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._engines: dict[str, Engine] = {}

    def load(self, *, file: str) -> int:
        """Take the rows and questions of a file; stores built before are forgotten."""
        self._engines.clear()
        self._rows = Rows(Path(file))
        return len(self._rows)

    def build(self, *, engine: str) -> float:
        """Fill a store; the seconds that it took."""
        directory = self._directory / f"{len(self._rows)}-{len(self._engines)}"
        directory.mkdir()
        started = time.perf_counter()
        self._engines[engine] = ENGINES[engine]()
        self._engines[engine].build(self._rows, directory)
        return time.perf_counter() - started

    def search(self, *, engine: str, question: int) -> dict[str, Any]:
        """Ask a store; the seconds and what it found."""
        asked, vector = self._rows.questions[question], self._rows.asked[question]
        started = time.perf_counter()
        found = self._engines[engine].search(asked, vector)
        return {"seconds": time.perf_counter() - started, "found": found}


def main() -> None:
    """Answer until the input ends."""
    driver = Driver(Path(sys.argv[1]))
    answers = sys.stdout
    sys.stdout = sys.stderr  # what the libraries print is no answer
    for line in sys.stdin:
        request = json.loads(line)
        try:
            answer = {"result": getattr(driver, request.pop("do"))(**request)}
        except Exception as error:  # each library has errors of its own; the benchmark reports them
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    main()
