#include <cstdlib>
#include <filesystem>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include "dlrm/comm/thread_comm.h"

#include "error_of.h"
#include "train/checkpoint/checkpoint_files.h"
#include "train/checkpoint_tensors.h"

namespace dlrm::testing {
namespace {

namespace fs = std::filesystem;

/// Runs a Python program and returns its exit status.
int python(const std::string& program, const std::string& argument) {
  TemporaryFolder folder;
  write_file(folder.path("program.py"), program);
  const std::string command =
      fmt::format("cd / && /usr/bin/python3 {} '{}'", folder.path("program.py"), argument);
  return WEXITSTATUS(std::system(command.c_str()));
}

constexpr const char* kCompare = R"(
import sys, h5py, numpy as np
folder = sys.argv[1]
with h5py.File(folder + '/index.h5', 'r') as whole, h5py.File(folder + '/expected.h5', 'r') as one:
    names = []
    one.visititems(lambda n, d: names.append(n) if isinstance(d, h5py.Dataset) else None)
    assert len(names) == 8, names
    for name in names:
        expected = one[name][...]
        assert whole[name].dtype == np.float32 and whole[name].is_virtual
        assert np.isfinite(expected).all()
        assert whole[name].shape == expected.shape
        np.testing.assert_array_equal(whole[name][...], expected, err_msg=name)
    a = whole.attrs
    assert (a['step'], a['samples'], a['epoch'], a['batch']) == (107, 107 * 2048, 1, 7)
    assert int(a['seed']) == 0xfedcba9876543210
    assert isinstance(a['config'], str) and a['config'].startswith('train: {seed: 1}')
    assert a['format'] == 'dlrm-checkpoint' and a['version'] == 1
)";

/// Reads the pieces of the rank files by their names, without the index.
constexpr const char* kExpected = R"(
import sys, re, glob, h5py, numpy as np
folder = sys.argv[1]
parts = {}
def add(name, d):
    m = re.fullmatch(r'(.*)/rows_(\d+)-(\d+)_columns_(\d+)-(\d+)', name)
    if isinstance(d, h5py.Dataset):
        parts.setdefault(m[1], []).append(([int(m[i]) for i in range(2, 6)], d[...]))
for file in glob.glob(folder + '/rank_*.h5'):
    with h5py.File(file, 'r') as f:
        f.visititems(add)
with h5py.File(folder + '/expected.h5', 'w') as out:
    for name, pieces in parts.items():
        rows, columns = max(p[0][1] for p in pieces), max(p[0][3] for p in pieces)
        whole = np.full((rows, columns), np.nan, np.float32)
        for (r0, r1, c0, c1), d in pieces:
            whole[r0:r1, c0:c1] = d.reshape(r1 - r0, c1 - c0)
        out[name] = whole[:, 0] if pieces[0][1].ndim == 1 else whole
)";

constexpr const char* kMissing = R"(
import sys, h5py, numpy as np
with h5py.File(sys.argv[1] + '/index.h5', 'r') as f:
    d = f['/tables/C1/weight'][...]
    assert np.isnan(d[9:18]).all() and np.isfinite(d[:9]).all() and np.isfinite(d[18:]).all()
)";

class EveryCut : public ::testing::TestWithParam<Cut> {};

TEST_P(EveryCut, H5pyReadsTensorsWholeFromAnyFolderAfterAMove) {
  TemporaryFolder folder;
  save_on(4, GetParam(), folder.path(), 107);
  fs::rename(folder.path("step_000000107"), folder.path("moved"));
  ASSERT_EQ(0, python(kExpected, folder.path("moved")));
  EXPECT_EQ(0, python(kCompare, folder.path("moved")));
}

INSTANTIATE_TEST_SUITE_P(Cuts, EveryCut, ::testing::Values(Cut::kRows, Cut::kGrid, Cut::kByTensor));

TEST(Checkpoint, AMissingRankFileShowsAsNan) {
  TemporaryFolder folder;
  save_on(4, Cut::kRows, folder.path(), 7);
  fs::remove(folder.path("step_000000007/rank_00001.h5"));
  EXPECT_EQ(0, python(kMissing, folder.path("step_000000007")));
}

constexpr const char* kPart = R"(
import sys, h5py
with h5py.File(sys.argv[1] + '/rank_00002.h5', 'r') as f:
    assert f.attrs['format'] == 'dlrm-checkpoint-part', dict(f.attrs)
)";

TEST(Checkpoint, ARankFileSaysWhatItIs) {
  TemporaryFolder folder;
  save_on(3, Cut::kRows, folder.path(), 7);
  EXPECT_EQ(0, python(kPart, folder.path("step_000000007")));
}

constexpr const char* kHuge = R"(
import sys, h5py
with h5py.File(sys.argv[1] + '/index.h5', 'r+') as f:
    del f['layout/choices']
    f.create_dataset('layout/choices', shape=(1 << 29,), dtype='i8')  # nothing of it is stored
)";

TEST(Checkpoint, AListThatClaimsMoreThanItsFileHoldsIsRefusedBeforeItTakesMemory) {
  TemporaryFolder folder;
  save_on(1, Cut::kRows, folder.path(), 20);
  const std::string saved = folder.path("step_000000020"), index = saved + "/index.h5";
  ASSERT_EQ(0, python(kHuge, saved));
  write_file(saved + "/index.crc",
             fmt::format("crc32c {:08x} bytes {}\n", crc32c_of_file(index), fs::file_size(index)));
  EXPECT_THAT(error_of([&] { open_checkpoint(*make_self_comm(), saved); }),
              ::testing::HasSubstr("/layout/choices is no list"));
}

}  // namespace
}  // namespace dlrm::testing
