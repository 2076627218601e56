"""The data sets of the recipes: small idx files are read as written, and each way to be broken has its own sentence."""

import gzip
import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest
import torch

RECIPES = Path(__file__).parents[3] / "recipes"

spec = importlib.util.spec_from_file_location("recipe_images", RECIPES / "images.py")
recipe_images = importlib.util.module_from_spec(spec)
spec.loader.exec_module(recipe_images)


def idx(*sizes: int, kind: int = 8, values: bytes | None = None) -> bytes:
    """An idx file of these sizes holding 0, 1, 2, ... or the given values."""
    header = bytes([0, 0, kind, len(sizes)]) + b"".join(size.to_bytes(4, "big") for size in sizes)
    count = torch.Size(sizes).numel()
    return header + (bytes(i % 256 for i in range(count)) if values is None else values)


@pytest.fixture
def file(tmp_path):
    def write(content: bytes, packed: bool = True) -> Path:
        path = tmp_path / "some-idx.gz"
        path.write_bytes(gzip.compress(content) if packed else content)
        return path

    return write


def fashion(folder: Path, test_labels: int = 2) -> Path:
    """A Fashion-MNIST of 3 training and 2 test images of 2x2."""
    for part, images, labels in [("train", 3, 3), ("t10k", 2, test_labels)]:
        (folder / f"{part}-images-idx3-ubyte.gz").write_bytes(gzip.compress(idx(images, 2, 2)))
        (folder / f"{part}-labels-idx1-ubyte.gz").write_bytes(gzip.compress(idx(labels)))
    return folder


def test_images_are_read_in_the_order_they_were_written(file):
    images = recipe_images.read_idx(file(idx(2, 2, 3)), dimensions=3)
    assert images.tolist() == [[[0, 1, 2], [3, 4, 5]], [[6, 7, 8], [9, 10, 11]]]


def test_labels_are_read_as_one_row(file):
    assert recipe_images.read_idx(file(idx(4, values=bytes([9, 0, 255, 3]))), dimensions=1).tolist() == [9, 0, 255, 3]


def test_a_file_of_no_images_is_read_as_none(file):
    assert recipe_images.read_idx(file(idx(0, 28, 28)), dimensions=3).shape == (0, 28, 28)


@pytest.mark.parametrize(
    ("content", "dimensions", "said"),
    [
        (idx(2, 2, 2), 1, "starts with '00000803' where such a file starts with '00000801'"),
        (idx(8), 3, "starts with '00000801' where such a file starts with '00000803'"),
        (idx(2, kind=0x0D), 1, "starts with '00000d01'"),
        (b"\x89PNG and so on", 1, "starts with '89504e47'"),
        (b"", 1, "starts with ''"),
        (idx(2, 2, 2)[:7], 3, "starts with '00000803'"),
        (idx(2, 2, 2)[:-1], 3, r"holds 7 values where its header says \[2, 2, 2\]"),
        (idx(2, 2, 2) + b"x", 3, r"holds 9 values where its header says \[2, 2, 2\]"),
        (idx(2**31, 2**31, 4, values=b""), 3, "holds 0 values"),
    ],
    ids=["images for labels", "labels for images", "floats", "png", "empty", "header", "short", "long", "overflow"],
)
def test_a_file_that_is_not_what_it_should_be_is_told_why(file, content, dimensions, said):
    with pytest.raises(recipe_images.DataError, match=said):
        recipe_images.read_idx(file(content), dimensions)


def test_a_file_that_is_not_gzip_or_is_cut_or_garbled_cannot_be_unpacked(file):
    packed = gzip.compress(idx(200))
    for content in (idx(2), packed[:-12], packed[:10] + b"\xff" + packed[11:]):
        with pytest.raises(recipe_images.DataError, match=r"some-idx\.gz cannot be unpacked \("):
            recipe_images.read_idx(file(content, packed=False), dimensions=1)


def test_fashion_mnist_comes_as_normalised_images_of_one_channel_with_their_labels(tmp_path):
    train, test = recipe_images.load("fashion-mnist", fashion(tmp_path))
    assert (len(train), len(test)) == (3, 2)
    image, label = train[1]
    assert (image.shape, image.dtype) == ((1, 2, 2), torch.float32)
    assert image.flatten().tolist() == pytest.approx([(value - 72.9) / 90.0 for value in (4, 5, 6, 7)])
    assert (label.item(), label.dtype) == (1, torch.int64)


def test_images_and_labels_of_unequal_number_are_refused(tmp_path):
    with pytest.raises(recipe_images.DataError, match="holds 2 t10k images but 5 labels"):
        recipe_images.load("fashion-mnist", fashion(tmp_path, test_labels=5))


def test_digits_are_split_the_same_each_time_and_no_image_is_in_both_parts():
    train, test = recipe_images.load("digits")
    assert (len(train), len(test)) == (1437, 360)
    images = torch.cat([train.tensors[0], test.tensors[0]])
    assert images.shape == (1797, 1, 8, 8)
    assert abs(images.mean()) < 0.01
    assert abs(images.std() - 1) < 0.01
    assert len(images.flatten(1).unique(dim=0)) == 1797
    for part, again in zip((train, test), recipe_images.load("digits"), strict=True):
        assert all(torch.equal(a, b) for a, b in zip(part.tensors, again.tensors, strict=True))


def test_missing_files_end_the_recipe_with_one_sentence_that_says_how_to_get_them(tmp_path):
    done = subprocess.run(
        [sys.executable, RECIPES / "classify.py", "--data", "fashion-mnist", "--data-dir", tmp_path],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    assert "dataset-fashion-mnist" in done.stderr
    assert "--data-dir" in done.stderr
