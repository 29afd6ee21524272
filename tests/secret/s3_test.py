"""Rows in an object store: a real HTTP server that speaks S3, credentials from the environment and nowhere else."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from ddssp.curate import columns_of, curate, plan
from ddssp.engine import Engine
from ddssp.experiments.noise import SeededNoise
from ddssp.frame import DataError
from ddssp.schema import Schema

pytest.importorskip("flask", reason="a local S3 server needs flask: pip install 'moto[s3]' flask flask-cors")
server = pytest.importorskip("moto.server", reason="a local S3 server needs moto: pip install 'moto[s3]' flask flask-cors")
fs = pytest.importorskip("pyarrow.fs")
if not hasattr(fs, "S3FileSystem"):
    pytest.skip("this pyarrow was built without S3", allow_module_level=True)

KEY, SECRET = "a-key-for-tests", "a-secret-for-tests"
SCHEMA = Schema(
    columns={"age": {"kind": "numeric", "low": 0, "high": 100, "bins": 4}, "sick": {"kind": "categorical", "levels": 2}}
)


def table() -> pa.Table:
    rng = np.random.default_rng(0)
    return pa.table({"age": rng.integers(0, 100, 900), "sick": rng.integers(0, 2, 900)})


@pytest.fixture
def bucket(monkeypatch):
    """`s3://people`, with rows as Parquet, as a folder of Parquet and as CSV; keys and address are in the environment."""
    store = server.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    store.start()
    host, port = store.get_host_and_port()
    for name, value in {
        "AWS_ACCESS_KEY_ID": KEY,
        "AWS_SECRET_ACCESS_KEY": SECRET,
        "AWS_REGION": "us-east-1",
        "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_ENDPOINT_URL": f"http://{host}:{port}",
    }.items():
        monkeypatch.setenv(name, value)
    system = fs.S3FileSystem(endpoint_override=f"{host}:{port}", scheme="http", region="us-east-1", allow_bucket_creation=True)
    system.create_dir("people")
    pq.write_table(table(), "people/rows.parquet", filesystem=system)
    for i in range(3):
        pq.write_table(table().slice(300 * i, 300), f"people/parts/{i}.parquet", filesystem=system)
    with system.open_output_stream("people/rows.csv") as out:
        pyarrow.csv.write_csv(table(), out)
    yield f"http&endpoint_override={host}:{port}", system
    store.stop()


def released(data, engine: Engine | None = None, **more) -> bytes:
    made = plan(SCHEMA, epsilon=1.0, delta=1e-6, mechanism="moments")
    return curate(data, made, noise=SeededNoise(3), engine=engine, **more).to_bytes()


def test_the_same_release_from_an_object_store(bucket):
    where, _ = bucket
    expected = released(table())
    for path in (
        "s3://people/rows.parquet",
        "s3://people/parts",
        "s3://people/rows.csv",
        f"s3://people/rows.csv?scheme={where}",
    ):
        assert released(path) == expected, path
    assert released("s3://people/rows.parquet", Engine(sql="SELECT * FROM data")) == expected
    assert columns_of("s3://people/rows.csv") == ["age", "sick"]


def test_an_object_that_changes_during_the_count_ends_the_release(bucket):
    """By its size: a store tells the time of a change in whole seconds."""
    _, system = bucket

    def change(what, share):
        if what == "counting" and share > 0:
            pq.write_table(table().slice(600), "people/rows.parquet", filesystem=system)

    with pytest.raises(DataError, match="the data changed while it was being read"):
        released("s3://people/rows.parquet", progress=change)


def test_what_is_not_there_is_told_without_keys(bucket):
    for path in ("s3://people/none.parquet", "s3://nobody/rows.csv", "s3://people/none"):
        with pytest.raises(DataError, match="cannot be read as") as caught:
            released(path)
        assert caught.value.__suppress_context__
        assert not any(word in str(caught.value) for word in (KEY, SECRET))


LOADED = {
    "key and secret": f"s3://{KEY}:{SECRET}@people/rows.parquet",
    "key": f"s3://{KEY}@people/rows.parquet",
    "password": f"hdfs://me:{SECRET}@host/rows.parquet",
    "option": f"s3://people/rows.csv?secret_key={SECRET}",
    "signed": f"https://people.example/rows.csv?X-Amz-Signature={SECRET}",
}


@pytest.mark.parametrize("how", LOADED)
@pytest.mark.parametrize("engine", [Engine(), Engine(kind="spark"), Engine(kind="duckdb")], ids=lambda e: e.kind)
def test_credentials_in_a_uri_are_refused_and_not_repeated(how, engine):
    with pytest.raises(
        DataError, match="a URI with credentials in it; leave them out and set them in the environment"
    ) as caught:
        columns_of(LOADED[how], engine)
    assert KEY not in str(caught.value)
    assert SECRET not in str(caught.value)


def test_names_in_a_uri_are_no_credentials():
    with pytest.raises(DataError, match=r"cannot be read as Parquet"):
        columns_of("hdfs://me@nowhere.invalid/rows.parquet")
