"""Files of rays: what is read, what is refused and in which words, and that nothing damaged does worse than that."""

import io
import zipfile

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rtviewer.errors import FileFormatError
from rtviewer.io import ray_file
from rtviewer.io.ray_file import CSV_COLUMNS, RAY_SUFFIXES, read_rays, write_ray_columns

COUNT = 5
HEADER = ",".join(CSV_COLUMNS)


def arrays(count=COUNT):
    random = np.random.default_rng(3)
    return {
        "origin": random.normal(size=(count, 3)).astype(np.float32),
        "direction": random.normal(size=(count, 3)).astype(np.float32),
        "t_min": random.random(count).astype(np.float32),
        "t_max": np.full(count, np.inf, np.float32),
        "flags": np.arange(count, dtype=np.uint32),
        "mask": np.full(count, 0xFF, np.uint32),
    }


def npz(tmp_path, **changes):
    path = tmp_path / "rays.npz"
    made = arrays() | changes
    np.savez(path, **{name: values for name, values in made.items() if values is not None})
    return path


def csv(tmp_path, text):
    path = tmp_path / "rays.csv"
    path.write_text(text, "utf-8")
    return path


def equal(table, made):
    for name, values in made.items():
        assert np.array_equal(getattr(table, name), values, equal_nan=values.dtype.kind == "f"), name


def test_an_npz_is_read_as_it_is(tmp_path):
    table = read_rays(npz(tmp_path))
    equal(table, arrays())
    assert len(table) == COUNT
    assert table.ignored == ()
    assert table.name == "rays.npz"
    assert all(getattr(table, name).flags.c_contiguous for name in arrays())


@pytest.mark.parametrize("suffix", RAY_SUFFIXES)
def test_what_is_written_reads_back_the_same(tmp_path, suffix):
    made = arrays(300)
    made["origin"][7] = np.nan, np.inf, -0.0
    made["t_min"][0] = np.float32(1) / np.float32(3)
    path = tmp_path / f"rays{suffix}"
    write_ray_columns(path, made | {"hit": np.arange(300) % 2 == 0, "problem": np.array(['a, "b"', ""] * 150)})
    table = read_rays(path)
    equal(table, made)
    assert table.ignored == ("hit", "problem")


def test_flags_and_mask_may_be_missing(tmp_path):
    table = read_rays(npz(tmp_path, flags=None, mask=None))
    assert table.flags is None
    assert table.mask is None
    without = ",".join(CSV_COLUMNS[:8])
    table = read_rays(csv(tmp_path, f"{without}\n0,0,0,0,0,1,0,inf\n"))
    assert (table.flags, table.mask) == (None, None)
    assert table.t_max[0] == np.inf


def test_a_recording_of_a_driver_is_a_file_of_rays(shared):
    path = sorted((shared / "goldens" / "scenes").glob("*.npz"))[0]
    table = read_rays(path)
    with np.load(path) as recorded:
        assert np.array_equal(table.origin, recorded["ray_origin"])
        assert np.array_equal(table.flags, recorded["ray_flags"])
    assert "meta_json" in table.ignored


@pytest.mark.parametrize("suffix", RAY_SUFFIXES)
def test_no_rays_are_a_legal_file(tmp_path, suffix):
    path = tmp_path / f"none{suffix}"
    write_ray_columns(path, arrays(0))
    assert len(read_rays(path)) == 0


def test_columns_of_a_csv_stand_in_any_order_and_case(tmp_path):
    names = list(reversed(CSV_COLUMNS))
    row = {"origin_x": "1", "direction_z": "-2.5", "t_max": "9", "flags": "0x10", "mask": "7"}
    text = ", ".join(name.upper() for name in [*names, "Note"]) + "\n\n"
    text += ",".join([*(row.get(name, "0") for name in names), "hello"]) + "\r\n"
    table = read_rays(csv(tmp_path, "\ufeff" + text))
    assert table.origin.tolist() == [[1, 0, 0]]
    assert table.direction.tolist() == [[0, 0, -2.5]]
    assert (table.t_max[0], table.flags[0], table.mask[0]) == (9, 16, 7)
    assert table.ignored == ("note",)


def test_nan_and_senseless_intervals_are_kept(tmp_path):
    table = read_rays(csv(tmp_path, f"{HEADER}\nnan,0,0,0,0,0,5,-1,4294967295,0\n"))
    assert np.isnan(table.origin[0, 0])
    assert (table.t_min[0], table.t_max[0], table.flags[0]) == (5, -1, 0xFFFFFFFF)


@pytest.mark.parametrize(
    ("changes", "field", "said"),
    [
        ({"origin": None}, "origin", "array is missing"),
        ({"t_max": None}, "t_max", "array is missing"),
        ({"direction": np.zeros((COUNT, 4), np.float32)}, "direction", "wrong shape"),
        ({"direction": np.zeros((COUNT + 1, 3), np.float32)}, "direction", "wrong shape"),
        ({"t_min": np.zeros((COUNT, 1), np.float32)}, "t_min", "wrong shape"),
        ({"t_min": np.float32(0)}, "t_min", "wrong shape"),
        ({"origin": np.zeros((COUNT, 3), np.int32)}, "origin", "wrong type"),
        ({"flags": np.zeros(COUNT, np.float32)}, "flags", "wrong type"),
        ({"mask": np.full(COUNT, -1)}, "mask", "out of range"),
        ({"mask": np.full(COUNT, 2**32)}, "mask", "out of range"),
        ({"origin": np.full((COUNT, 3), 1e39)}, "origin", "beyond float32"),
        ({"t_max": np.full(COUNT, 1e300)}, "t_max", "beyond float32"),
        ({"flags": np.zeros(COUNT - 1, np.uint32)}, "flags", "wrong shape"),
    ],
)
def test_an_npz_that_does_not_say_what_its_rays_are(tmp_path, changes, field, said):
    with pytest.raises(FileFormatError, match=said) as caught:
        read_rays(npz(tmp_path, **changes))
    assert caught.value.field == field


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "the file is empty: expected a header: origin_x,"),
        ("\n\n", "the file is empty"),
        ("origin_x,origin_y\n1,2\n", "origin_z: column is missing"),
        (HEADER.replace("t_max", "tmax") + "\n", "t_max: column is missing"),
        (HEADER + ",origin_x\n", "origin_x: two columns have the same name"),
        (HEADER + "\n1,2,3\n", "line 2: wrong number of values: expected 10, found 3"),
        (HEADER + "\n0,0,0,0,0,1,0,1,0,0\n0,0,0,zero,0,1,0,1,0,0\n", "direction_x: line 3: not a number.*'zero'"),
        (HEADER + "\n0,0,0,0,0,1,,1,0,0\n", "t_min: line 2: not a number"),
        (HEADER + "\n0,0,0,0,0,1,0,1,CULL_OPAQUE,0\n", "flags: line 2.*whole number from 0 to 0xffffffff"),
        (HEADER + "\n0,0,0,0,0,1,0,1,0,-1\n", "mask: line 2"),
        (HEADER + "\n0,0,0,0,0,1,0,1,0,4294967296\n", "mask: line 2"),
        (HEADER + "\n0,0,0,0,0,1,0,1,0,1.5\n", "mask: line 2"),
        (HEADER + "\n0,0,1e39,0,0,1,0,1,0,0\n", "origin_z: ray 0: a number is beyond float32"),
        (HEADER + '\n"0,0,0\n', "not CSV"),
        (HEADER + "\n" + "9" * 200_000 + ",0,0,0,0,1,0,1,0,0\n", "line 2"),
    ],
)
def test_a_csv_that_does_not_say_what_its_rays_are(tmp_path, text, said):
    with pytest.raises(FileFormatError, match=said):
        read_rays(csv(tmp_path, text))


def test_files_that_are_no_ray_files(tmp_path):
    for name, data, said in (
        ("a.txt", b"", "unknown kind of ray file"),
        ("a.npz", b"", "not a numpy archive"),
        ("a.npz", b"PK\x03\x04" + bytes(40), "not a numpy archive"),
        ("a.csv", b"\xff\xfe\x00", "not UTF-8"),
    ):
        path = tmp_path / name
        path.write_bytes(data)
        with pytest.raises(FileFormatError, match=said):
            read_rays(path)
    with pytest.raises(FileFormatError, match="there is no such file"):
        read_rays(tmp_path / "missing.csv")
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(FileFormatError, match="folder"):
        read_rays(tmp_path / "folder.csv")
    with pytest.raises(FileFormatError, match="unknown kind of ray file"):
        write_ray_columns(tmp_path / "out.json", {})


def test_a_pickle_is_not_opened(tmp_path):
    np.savez(tmp_path / "a.npz", **(arrays() | {"origin": np.array([{"a": 1}], object)}))
    with pytest.raises(FileFormatError, match="not a numpy archive of plain arrays"):
        read_rays(tmp_path / "a.npz")


def test_an_archive_that_unpacks_to_too_much_is_not_unpacked(tmp_path):
    path = tmp_path / "bomb.npz"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive, archive.open("origin.npy", "w") as member:
        for _ in range(1030):
            member.write(bytes(1 << 20))
    assert path.stat().st_size < 2 << 20
    with pytest.raises(FileFormatError, match="unpacks to too much"):
        read_rays(path)


def test_a_header_that_promises_more_than_there_is(tmp_path):
    data = io.BytesIO()
    np.lib.format.write_array_header_1_0(data, {"descr": "<f4", "fortran_order": False, "shape": (1 << 40, 3)})
    path = tmp_path / "long.npz"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("origin.npy", data.getvalue() + bytes(64))
    with pytest.raises(FileFormatError, match=r"not a numpy archive|not enough memory"):
        read_rays(path)


def test_more_rays_than_can_be_listed(tmp_path, monkeypatch):
    monkeypatch.setattr(ray_file, "MAX_RAYS", 4)
    with pytest.raises(FileFormatError, match="too many rays: expected at most 4, found 5"):
        read_rays(npz(tmp_path))
    row = "0,0,0,0,0,1,0,1,0,0\n"
    with pytest.raises(FileFormatError, match="too many rays"):
        read_rays(csv(tmp_path, HEADER + "\n" + row * 5))
    assert len(read_rays(csv(tmp_path, HEADER + "\n" + row * 4))) == 4
    monkeypatch.setattr(ray_file, "MAX_CSV_BYTES", 10)
    with pytest.raises(FileFormatError, match="too large"):
        read_rays(csv(tmp_path, HEADER))


def read_or_refused(path):
    try:
        table = read_rays(path)
    except FileFormatError:
        return
    assert table.origin.shape == table.direction.shape == (len(table), 3)
    assert table.t_min.shape == table.t_max.shape == (len(table),)


@pytest.mark.parametrize("suffix", RAY_SUFFIXES)
def test_every_cut_is_read_or_refused(tmp_path, suffix):
    path = tmp_path / f"whole{suffix}"
    write_ray_columns(path, arrays(3))
    data = path.read_bytes()
    cut = tmp_path / f"cut{suffix}"
    for length in range(0, len(data), max(len(data) // 300, 1)):
        cut.write_bytes(data[:length])
        read_or_refused(cut)


@pytest.mark.parametrize("suffix", RAY_SUFFIXES)
@given(edits=st.lists(st.tuples(st.integers(0, 1 << 14), st.integers(0, 255)), min_size=1, max_size=6))
def test_damaged_bytes_are_read_or_refused(tmp_path_factory, suffix, edits):
    folder = tmp_path_factory.getbasetemp()
    path = folder / f"damaged{suffix}"
    write_ray_columns(path, arrays(3))
    data = bytearray(path.read_bytes())
    for place, value in edits:
        data[place % len(data)] = value
    path.write_bytes(data)
    read_or_refused(path)


@given(text=st.text(st.sampled_from('0123456789.,-+einfaxNAN\n\r" \t\0é'), max_size=120), with_header=st.booleans())
def test_any_text_is_read_or_refused(tmp_path_factory, text, with_header):
    path = tmp_path_factory.getbasetemp() / "any.csv"
    path.write_text(f"{HEADER}\n{text}" if with_header else text, "utf-8", newline="")
    read_or_refused(path)
