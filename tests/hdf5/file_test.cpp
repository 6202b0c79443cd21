#include "dlrm/hdf5/file.h"

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <thread>

#include <gmock/gmock.h>
#include <sys/resource.h>

#include "dlrm/core/error.h"

#include "error_of.h"
#include "hdf5/library.h"

namespace dlrm::hdf5 {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class Hdf5File : public ::testing::Test {
 protected:
  Hdf5File() {
    std::string name = ::testing::TempDir() + "hdf5_XXXXXX";
    folder_ = mkdtemp(name.data());
  }
  ~Hdf5File() override { std::filesystem::remove_all(folder_); }
  std::string path(const std::string& name) const { return folder_ + "/" + name; }

 private:
  std::string folder_;
};

TEST_F(Hdf5File, AttributesAreReadAsTheyWereWrittenAndNotAsAnotherType) {
  {
    File file = File::create(path("a.h5"));
    file.set_integer("integer", -7);
    file.set_unsigned_integer("unsigned", 0xfedcba9876543210u);
    file.set_text("text", "abc");
    file.set_text("empty", "");
    file.set_fixed_text("fixed", "def");
    file.close();
  }
  const File file = File::open(path("a.h5"));
  EXPECT_EQ(file.integer("integer"), -7);
  EXPECT_EQ(file.unsigned_integer("unsigned"), 0xfedcba9876543210u);
  EXPECT_EQ(file.text("text"), "abc");
  EXPECT_EQ(file.text("empty"), "");
  EXPECT_EQ(file.text("fixed"), "def");
  EXPECT_FALSE(file.integer("text"));
  EXPECT_FALSE(file.text("integer"));
  EXPECT_FALSE(file.integer("none"));
}

TEST_F(Hdf5File, PaddingIsNoPartOfAText) {
  File file = File::create(path("a.h5"));
  for (const auto& [written, read] :
       {std::pair{"abc  ", "abc"}, {"a b", "a b"}, {" a ", " a"}, {"   ", ""}}) {
    file.set_fixed_text("text " + std::string(written), written);
    EXPECT_EQ(file.text("text " + std::string(written)), read);
  }
}

TEST_F(Hdf5File, AnAttributeMayBeWrittenAgain) {
  File file = File::create(path("a.h5"));
  for (const int64_t value : {int64_t{1}, int64_t{-2}, INT64_MAX}) {
    file.set_integer("n", value);
    EXPECT_EQ(file.integer("n"), value);
  }
  EXPECT_TRUE(file.has_attribute("n"));
  EXPECT_FALSE(file.has_attribute("m"));
}

TEST_F(Hdf5File, ADatasetExistsOnlyWithAllItsGroups) {
  File file = File::create(path("a.h5"));
  file.create_dataset("/a/b/c", Type::kUint8, {1});
  for (const char* there : {"/a", "/a/b", "/a/b/c"}) EXPECT_TRUE(file.exists(there)) << there;
  for (const char* absent : {"/b", "/a/c", "/a/b/d", "/x/b/c", "/a/x/c"}) {
    EXPECT_FALSE(file.exists(absent)) << absent;
  }
}

TEST_F(Hdf5File, EveryTypeIsStoredAsItself) {
  File file = File::create(path("a.h5"));
  const std::vector<std::pair<Type, int64_t>> types{{Type::kUint8, 1},
                                                    {Type::kUint32, 4},
                                                    {Type::kInt32, 4},
                                                    {Type::kInt64, 8},
                                                    {Type::kFloat32, 4}};
  for (const auto& [type, bytes] : types) {
    const std::string name = "/t" + std::to_string(static_cast<int>(type));
    const Dataset made = file.create_dataset(name, type, {3, 5});
    EXPECT_EQ(made.type(), type);
    EXPECT_EQ(made.elements(), 15);
    EXPECT_EQ(made.stored_bytes(), 15 * bytes);
    EXPECT_EQ(file.dataset(name).type(), type);
  }
}

TEST_F(Hdf5File, ADatasetKnowsItsTypeShapeAndPlaceInTheFile) {
  File file = File::create(path("a.h5"), {.alignment = 4096});
  Dataset values = file.create_dataset("/group/values", Type::kInt64, {600});
  std::vector<int64_t> numbers(600);
  for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<int64_t>(i * i);
  values.write(View<const int64_t>(numbers));
  EXPECT_EQ(values.type(), Type::kInt64);
  EXPECT_EQ(values.storage().kind, Storage::Kind::kContiguous);
  EXPECT_EQ(values.storage().offset % 4096, 0);
  EXPECT_EQ(file.create_dataset("/group/none", Type::kUint8, {0}).storage().kind,
            Storage::Kind::kNone);
  EXPECT_TRUE(file.exists("/group/values"));
  EXPECT_FALSE(file.exists("/nothing/values"));
  EXPECT_THAT(*file.names_in("/group"), ElementsAre("none", "values"));
  EXPECT_FALSE(file.names_in("/group/values"));
  EXPECT_EQ(file.dataset("/group/values").read<int64_t>(), numbers);
  EXPECT_THAT(file.dataset("/group/values").shape(), ElementsAre(600));
}

TEST_F(Hdf5File, AFailureNamesTheFileAndTheObject) {
  std::ofstream(path("text.h5")) << "no HDF5";
  EXPECT_FALSE(File::try_open(path("text.h5")));
  File file = File::create(path("a.h5"));
  EXPECT_EQ(run_error_of([&] { file.dataset("/values"); }),
            path("a.h5") + ": HDF5 cannot open /values: object 'values' doesn't exist");
}

TEST_F(Hdf5File, WhatExistsOrMayNotBeWrittenIsNotMade) {
  const std::vector<VirtualPart> parts{{{0, 3}, {0, 1}, "b.h5", "/values"}};
  {
    File file = File::create(path("a.h5"), {.checksums = true});
    file.create_dataset("/values", Type::kFloat32, {3});
    file.create_virtual("/shown", {3}, parts);
    for (const std::string name : {"/values", "/shown"}) {
      const std::string expected =
          path("a.h5") + ": HDF5 cannot create " + name + ": name already exists";
      EXPECT_EQ(run_error_of([&] { file.create_dataset(name, Type::kFloat32, {3}); }), expected);
      EXPECT_EQ(run_error_of([&] { file.create_virtual(name, {3}, parts); }), expected);
    }
  }
  File file = File::open(path("a.h5"));
  const std::string reason = ": no write intent on file";
  EXPECT_EQ(run_error_of([&] { file.create_dataset("/x", Type::kFloat32, {3}); }),
            path("a.h5") + ": HDF5 cannot create /x" + reason);
  EXPECT_EQ(run_error_of([&] { file.create_virtual("/y", {3}, parts); }),
            path("a.h5") + ": HDF5 cannot create /y" + reason);
  for (const std::function<void()>& set : std::vector<std::function<void()>>{
           [&] { file.set_integer("z", 1); }, [&] { file.set_unsigned_integer("z", 1); },
           [&] { file.set_text("z", "1"); }, [&] { file.set_fixed_text("z", "1"); }}) {
    EXPECT_EQ(error_of(set), path("a.h5") + ": HDF5 cannot write attribute z" + reason);
  }
}

/// From version 2 on, metadata have checksums.
TEST_F(Hdf5File, MetadataHaveChecksumsOnRequest) {
  for (const bool checksums : {false, true}) {
    File::create(path("a.h5"), {.checksums = checksums}).close();
    std::ifstream file(path("a.h5"), std::ios::binary);
    file.seekg(8);
    EXPECT_EQ(file.get() >= 2, checksums);
  }
}

TEST_F(Hdf5File, AFileThatCannotBeMadeOrOpenedIsNamed) {
  const std::string nowhere = path("none/a.h5");
  for (const bool lock : {false, true}) {
    EXPECT_EQ(run_error_of([&] { File::create(nowhere, {.lock = lock}); }),
              nowhere +
                  ": HDF5 cannot create the file: unable to open file: No such file or "
                  "directory");
  }
  EXPECT_EQ(
      run_error_of([&] { File::open(nowhere); }),
      nowhere + ": HDF5 cannot open the file: unable to open file: No such file or directory");
  std::ofstream(path("text.h5")) << "no HDF5";
  EXPECT_EQ(run_error_of([&] { File::open(path("text.h5")); }),
            path("text.h5") + ": HDF5 cannot open the file: file signature not found");
}

TEST_F(Hdf5File, ADatasetOfAnotherFileOrAnotherLayoutHasNoPlace) {
  File::create(path("other.h5")).create_dataset("/x", Type::kUint8, {3});
  const std::string script =
      "import h5py, numpy; f = h5py.File('" + path("a.h5") +
      "', 'w'); f['away'] = h5py.ExternalLink('other.h5', '/x'); "
      "f.create_dataset('chunked', data=numpy.zeros(9), chunks=(3,)); "
      "f.create_dataset('raw', shape=(4,), dtype='u1', external=[('raw.bin', 0, 4)]); "
      "f.create_dataset('late', shape=(4,), dtype='u1'); f['good'] = numpy.zeros(5, 'u1'); "
      "f.attrs['long'] = numpy.bytes_(b'x' * 60000); f.attrs['pair'] = [1, 2]; "
      "f.attrs['one'] = [7]; f.attrs['utf8'] = '\u00e4'; f.attrs['real'] = 1.5; "
      "f.attrs.create('texts', ['a', 'b'], dtype=h5py.string_dtype())";
  ASSERT_EQ(std::system(("/usr/bin/python3 -c \"" + script + "\"").c_str()), 0);
  const File file = File::open(path("a.h5"));
  EXPECT_EQ(file.dataset("/away").storage().kind, Storage::Kind::kOtherFile);
  EXPECT_EQ(file.dataset("/chunked").storage().kind, Storage::Kind::kOther);
  EXPECT_EQ(file.dataset("/raw").storage().kind, Storage::Kind::kOther);
  EXPECT_EQ(file.dataset("/late").storage().kind, Storage::Kind::kNone);
  EXPECT_EQ(file.dataset("/good").storage().kind, Storage::Kind::kContiguous);
  EXPECT_FALSE(file.dataset("/chunked").type());  // fp64
  EXPECT_EQ(file.text("long"), std::string(60000, 'x'));
  EXPECT_FALSE(file.integer("pair"));
  EXPECT_EQ(file.integer("one"), 7);
  EXPECT_FALSE(file.integer("real"));
  EXPECT_EQ(file.text("utf8"), "\xc3\xa4");
  EXPECT_FALSE(file.text("texts"));
}

TEST_F(Hdf5File, AVirtualDatasetShowsItsPartsAndNothingElse) {
  // In names of datasets %b would stand for a block's number.
  const auto write_part = [&](const char* file, const char* name, const Shape& shape,
                              int64_t first) {
    std::vector<int64_t> values(static_cast<size_t>(shape[0] * shape[1]));
    for (size_t i = 0; i < values.size(); ++i) values[i] = first + static_cast<int64_t>(i);
    File::create(path(file))
        .create_dataset(name, Type::kFloat32, shape)
        .write(View<const int64_t>(values));
  };
  write_part("first.h5", "/a/p%b%", {2, 2}, 10);
  write_part("second.h5", "/b", {3, 1}, 20);
  const std::vector<VirtualPart> parts{{{0, 2}, {0, 2}, "first.h5", "/a/p%b%"},
                                       {{1, 4}, {2, 3}, "second.h5", "/b"},
                                       {{3, 4}, {0, 2}, "none.h5", "/c"}};
  File made = File::create(path("a.h5"), {.checksums = true});
  made.create_virtual("/new/shown", {4, 3}, parts);
  EXPECT_EQ(made.dataset("/new/shown").storage().kind, Storage::Kind::kOther);
  made.close();
  const Lock lock;
  const Handle file(H5Fopen(path("a.h5").c_str(), H5F_ACC_RDONLY, H5P_DEFAULT));
  const Handle shown(H5Dopen2(file.id(), "/new/shown", H5P_DEFAULT));
  std::vector<float> values(12, -1.0f);
  ASSERT_GE(H5Dread(shown.id(), H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()), 0);
  const auto none = ::testing::IsNan();
  EXPECT_THAT(values, ElementsAre(10, 11, none, 12, 13, 20, none, none, 21, none, none, 22));
}

TEST_F(Hdf5File, NoTimesAreStored) {
  File::create(path("a.h5")).create_dataset("/values", Type::kInt64, {3});
  const Lock lock;
  const Handle file(H5Fopen(path("a.h5").c_str(), H5F_ACC_RDONLY, H5P_DEFAULT));
  H5O_info_t info{};
  ASSERT_GE(H5Oget_info_by_name2(file.id(), "/values", &info, H5O_INFO_TIME, H5P_DEFAULT), 0);
  EXPECT_EQ(std::max({info.atime, info.mtime, info.ctime, info.btime}), 0);
}

TEST_F(Hdf5File, ATextMayBeWrittenAgainWithAnotherLength) {
  File file = File::create(path("a.h5"));
  for (const char* text : {"long text", "", "short", "much longer than before"}) {
    file.set_text("t", text);
    EXPECT_EQ(file.text("t"), text);
  }
  for (const uint64_t value : {UINT64_MAX, uint64_t{3}}) {
    file.set_unsigned_integer("u", value);
    EXPECT_EQ(file.unsigned_integer("u"), value);
  }
}

herr_t own_handler(hid_t, void* calls) {
  ++*static_cast<int*>(calls);
  return 0;
}

TEST_F(Hdf5File, TheCallersErrorHandlerStaysAndIsNotCalled) {
  int data = 0;
  H5Eset_auto2(H5E_DEFAULT, own_handler, &data);
  EXPECT_FALSE(File::try_open(path("none.h5")));
  H5E_auto2_t handler = nullptr;
  void* seen = nullptr;
  H5Eget_auto2(H5E_DEFAULT, &handler, &seen);
  EXPECT_EQ(handler, own_handler);
  EXPECT_EQ(seen, &data);
  EXPECT_EQ(data, 0);
  H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
}

TEST_F(Hdf5File, ThreadsMayUseFilesAtOnce) {
  const auto work = [&](int thread) {
    for (int round = 0; round < 20; ++round) {
      const std::string name = path(std::to_string(thread) + ".h5");
      File file = File::create(name);
      for (int i = 0; i < 10; ++i) {
        const std::vector<int64_t> values{thread, round, i};
        Dataset made = file.create_dataset("/a/" + std::to_string(i), Type::kInt64, {3});
        made.write(View<const int64_t>(values));
        made.set_integer("i", i);
      }
      file.close();
      EXPECT_THAT(File::open(name).dataset("/a/9").read<int64_t>(), ElementsAre(thread, round, 9));
    }
  };
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) threads.emplace_back(work, t);
  for (std::thread& thread : threads) thread.join();
}

/// Writes a file that its limit of 4 KiB cuts short, and exits.
[[noreturn]] void exit_after_a_failed_close(const std::string& path) {
  std::signal(SIGXFSZ, SIG_IGN);
  const rlimit limit{4096, 4096};
  setrlimit(RLIMIT_FSIZE, &limit);
  try {
    File file = File::create(path);
    file.create_dataset("values", Type::kInt64, {4000})
        .write(View<const int64_t>(std::vector<int64_t>(4000)));
    file.close();
  } catch (const Error&) {
    std::exit(7);
  }
  std::exit(0);
}

TEST_F(Hdf5File, AProcessWhoseCloseFailedExitsWithoutASignal) {
  EXPECT_EXIT(exit_after_a_failed_close(path("a.h5")), testing::ExitedWithCode(7), "");
}

}  // namespace
}  // namespace dlrm::hdf5
