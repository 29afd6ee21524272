"""The paper's datasets: as their manifest says, or refused."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest

from ddssp.experiments import datasets


@pytest.mark.data
def test_adult_is_the_papers(data_dir):
    adult = datasets.dataset("adult", data_dir)
    assert (adult.train.num_rows, adult.test.num_rows, adult.rest.num_rows) == (47_842, 1000, 0)
    assert adult.targets == {"linear": "education-num", "logistic": "income>50K"}
    assert adult.schema.columns["education-num"].kind == "ordinal"
    assert adult.schema.columns["education"].kind == "categorical"
    assert not adult.is_substitute


@pytest.mark.data
def test_every_dataset_is_within_its_domain(data_dir):
    names = datasets.names(data_dir)
    assert "ACSPublicCoverage.test" not in names
    assert len(names) == 8
    for name in (*names, "ACSPublicCoverage.test"):
        data = datasets.dataset(name, data_dir)
        assert data.train.num_rows <= datasets.TRAIN_ROWS
        for column, declared in data.schema.columns.items():
            for part in (data.train, data.test):
                codes = part.column(column).to_numpy()
                assert len(codes) == 0 or (codes.min() >= 0 and codes.max() < declared.size), (name, column)
        assert np.all([t in data.schema.columns for t in data.targets.values()])


@pytest.mark.data
def test_a_file_that_was_changed_is_refused(data_dir, tmp_path):
    manifest = json.loads((data_dir / "MANIFEST.json").read_text())
    (tmp_path / "MANIFEST.json").write_text(json.dumps(manifest))
    about = manifest["datasets"]["ACSPublicCoverage.test"]
    shutil.copyfile(data_dir / about["domain_file"], tmp_path / about["domain_file"])
    (tmp_path / about["file"]).write_bytes((data_dir / about["file"]).read_bytes() + b"\0")
    with pytest.raises(ValueError, match="does not have the manifest's checksum"):
        datasets.dataset("ACSPublicCoverage.test", tmp_path)


def test_a_folder_without_a_manifest_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"must hold MANIFEST.json"):
        datasets.names(tmp_path)


@pytest.mark.data
def test_an_unknown_name_is_refused(data_dir):
    with pytest.raises(ValueError, match="dataset must be one of adult"):
        datasets.dataset("none", data_dir)


@pytest.mark.data
def test_the_papers_names(data_dir):
    assert datasets.resolved(["ACSIncome", "Taxi", "adult"], data_dir) == ("ACSincome-LIN", "ACSincome", "taxi-sub", "adult")
    assert datasets.resolved(["ACSincome"], data_dir) == ("ACSincome",)
    with pytest.raises(ValueError, match=r"datasets must be among adult, .* got 'none'"):
        datasets.resolved(["none"], data_dir)
