// Files that the system cannot read, questions that leave nothing behind, and the locks of files.
#include <filesystem>
#include <fstream>
#include <functional>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/file.h>
#include <unistd.h>

#include "dlrm/core/error.h"
#include "dlrm/hdf5/file.h"

#include "hdf5/library.h"

namespace dlrm::hdf5 {
namespace {

using ::testing::ElementsAre;

class UnreadableFile : public ::testing::Test {
 protected:
  UnreadableFile() {
    std::string name = ::testing::TempDir() + "hdf5_XXXXXX";
    folder_ = mkdtemp(name.data());
    path_ = folder_ + "/a.h5";
  }
  ~UnreadableFile() override { std::filesystem::remove_all(folder_); }

  /// With so many attributes that a question about one reads the file.
  void write() const {
    File file = File::create(path_, {.checksums = true});
    for (int i = 0; i < 40; ++i) file.set_integer("n" + std::to_string(i), i);
    file.create_dataset("/a/values", Type::kInt64, {3})
        .write(View<const int64_t>(std::vector<int64_t>{4, 5, 6}));
  }

  /// From now on reads of the open file fail.
  void break_reads() const {
    const int other = open("/dev/null", O_WRONLY | O_CLOEXEC);
    std::vector<int> found;
    for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
      std::error_code gone;
      if (std::filesystem::read_symlink(entry.path(), gone) == path_) {
        found.push_back(std::stoi(entry.path().filename()));
      }
    }
    EXPECT_EQ(found.size(), 1u);
    for (const int fd : found) dup2(other, fd);
    ::close(other);
  }

  static std::string failure(const std::function<void()>& call,
                             ExitCode code = ExitCode::kFailure) {
    try {
      call();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), code) << error.what();
      return error.what();
    }
    return "none";
  }

  std::string folder_, path_;
};

TEST_F(UnreadableFile, EveryQuestionTellsThatItCannotBeRead) {
  write();
  const std::vector<std::pair<std::string, std::function<void(File&)>>> questions{
      {"read /a", [](File& f) { f.exists("/a/values"); }},
      {"list /a", [](File& f) { f.names_in("/a"); }},
      {"read /a/values", [](File& f) { f.find_dataset("/a/values"); }},
      {"read /a/values", [](File& f) { f.dataset("/a/values"); }},
      {"read attribute n9", [](File& f) { f.has_attribute("n9"); }},
      {"read attribute n9", [](File& f) { f.integer("n9"); }},
      {"read attribute n9", [](File& f) { f.unsigned_integer("n9"); }},
      {"read attribute n9", [](File& f) { f.text("n9"); }}};
  for (const auto& [what, question] : questions) {
    const auto error = [&, &ask = question](bool broken) {
      File file = File::open(path_);
      if (broken) break_reads();
      return failure([&] { ask(file); });
    };
    EXPECT_EQ(error(false), "none");
    EXPECT_EQ(error(true),
              path_ + ": HDF5 cannot " + what + ": file read failed: Bad file descriptor");
  }
}

TEST_F(UnreadableFile, SoDoValuesAndTexts) {
  {
    File file = File::create(path_);
    file.set_text("text", "abc");
    file.create_dataset("/values", Type::kInt64, {3})
        .write(View<const int64_t>(std::vector<int64_t>{4, 5, 6}));
  }
  const File file = File::open(path_);
  const Dataset values = file.dataset("/values");
  break_reads();
  const std::string reason = ": file read failed: Bad file descriptor";
  EXPECT_EQ(failure([&] { file.text("text"); }),
            path_ + ": HDF5 cannot read attribute text" + reason);
  EXPECT_EQ(failure([&] { values.read<int64_t>(); }),
            path_ + ": HDF5 cannot read /values" + reason);
  EXPECT_EQ(failure([&] { File::try_open(folder_); }),
            folder_ + ": HDF5 cannot read the file: file read failed: Is a directory");
}

TEST_F(UnreadableFile, OtherFailuresAreAnswers) {
  write();
  const File file = File::open(path_);
  EXPECT_FALSE(file.exists("/a/values/x"));  // /a/values is no group
  EXPECT_FALSE(file.exists("/b/values"));
  EXPECT_FALSE(file.names_in("/b"));
  EXPECT_FALSE(file.find_dataset("/b"));
  EXPECT_FALSE(file.has_attribute("n40"));
  EXPECT_FALSE(file.integer("n40"));
  EXPECT_FALSE(file.text("n3"));
  EXPECT_FALSE(File::try_open(folder_ + "/none.h5"));
  std::ofstream(folder_ + "/text.h5") << "no HDF5";
  EXPECT_FALSE(File::try_open(folder_ + "/text.h5"));
}

TEST_F(UnreadableFile, ValuesThatAreNoNumbersAreAMistakeOfTheFile) {
  const std::string script = "import h5py; h5py.File('" + path_ + "', 'w')['values'] = ['a', 'b']";
  ASSERT_EQ(std::system(("/usr/bin/python3 -c \"" + script + "\"").c_str()), 0);
  const File file = File::open(path_);
  EXPECT_EQ(failure([&] { file.dataset("/values").read<int64_t>(); }, ExitCode::kUsage),
            path_ + ": HDF5 cannot read /values: no appropriate function for conversion path");
}

/// Files, datasets, groups, types and attributes that are open in the library.
ssize_t open_objects() {
  const Lock lock;
  return H5Fget_obj_count(H5F_OBJ_ALL, H5F_OBJ_ALL);
}

TEST_F(UnreadableFile, NothingIsLeftInTheLibrary) {
  write();
  for (int round = 0; round < 3; ++round) {
    write();
    File made = File::create_in_memory(path_ + ".memory");
    made.create_dataset("/x", Type::kUint32, {0}).set_unsigned_integer("u", 1);
    made.set_text("t", "t");
    made.set_fixed_text("f", "f");
    made.image();
    {
      File file = File::open(path_, File::Access::kReadWrite);
      const std::string name = "/shown" + std::to_string(round);
      const std::vector<VirtualPart> parts{{{0, 3}, {0, 1}, "b.h5", "/values"}};
      file.create_virtual(name, {3}, parts);
      failure([&] { file.create_virtual(name, {3}, parts); });
      failure([&] { file.dataset("/none"); });
      const Dataset values = file.dataset("/a/values");
      values.type();
      values.storage();
      values.elements();
      values.read<int64_t>();
      file.text("n3");
      file.integer("n3");
      made.text("t");
      made.text("f");
      file.names_in("/a");
    }
    failure([&] { File::open(folder_ + "/none.h5"); });
    File::try_open(folder_ + "/none.h5");
    File::try_open(path_);
    EXPECT_EQ(open_objects(), 1);
    made.close();
    EXPECT_EQ(open_objects(), 0);
  }
  EXPECT_FALSE(std::filesystem::exists(path_ + ".memory"));
}

TEST_F(UnreadableFile, AClosedFileIsWholeAlthoughADatasetIsOpen) {
  File file = File::create(path_);
  Dataset values = file.create_dataset("/values", Type::kInt64, {3});
  values.write(View<const int64_t>(std::vector<int64_t>{4, 5, 6}));
  values.set_integer("n", 7);
  file.close();
  const File again = File::open(path_);
  EXPECT_EQ(open_objects(), 1);
  EXPECT_THAT(again.dataset("/values").read<int64_t>(), ElementsAre(4, 5, 6));
  EXPECT_EQ(again.dataset("/values").integer("n"), 7);
}

TEST_F(UnreadableFile, AnImageIsTheFile) {
  File made = File::create_in_memory("name");
  const std::vector<uint32_t> numbers(1 << 19, 3);  // two megabytes
  made.create_dataset("/a/values", Type::kUint32, {1 << 19}).write(View<const uint32_t>(numbers));
  made.create_dataset("/none", Type::kUint32, {0}).write(View<const uint32_t>());
  const std::vector<char> image = made.image();
  std::ofstream(path_, std::ios::binary).write(image.data(), std::ssize(image));
  const File file = File::open(path_);
  EXPECT_EQ(file.dataset("/a/values").read<uint32_t>(), numbers);
  EXPECT_TRUE(file.dataset("/none").read<uint32_t>().empty());
}

TEST_F(UnreadableFile, NamesAreSortedInEveryFormat) {
  for (const bool checksums : {false, true}) {
    File file = File::create(path_, {.checksums = checksums});
    for (const char* name : {"b", "c", "a", "C", "aa"}) {
      file.create_dataset(std::string("/g/") + name, Type::kUint8, {1});
    }
    EXPECT_THAT(*file.names_in("/g"), ElementsAre("C", "a", "aa", "b", "c"));
  }
}

TEST_F(UnreadableFile, LocksOfOthersConcernWritersThatLockAlone) {
  File::create(path_).close();
  const int other = open(path_.c_str(), O_RDWR | O_CLOEXEC);
  ASSERT_EQ(flock(other, LOCK_EX | LOCK_NB), 0);
  EXPECT_NO_THROW(File::open(path_));
  EXPECT_TRUE(File::try_open(path_));
  const std::string reason = ": unable to lock file: Resource temporarily unavailable";
  EXPECT_EQ(failure([&] { File::open(path_, File::Access::kReadWrite); }),
            path_ + ": HDF5 cannot open the file" + reason);
  EXPECT_EQ(failure([&] { File::create(path_); }),
            path_ + ": HDF5 cannot create the file" + reason);
  EXPECT_NO_THROW(File::create(path_, {.lock = false}));
  ::close(other);
}

/// An attribute of more than 64 KiB needs a file of the newest format.
TEST_F(UnreadableFile, ATextOfFixedLengthHasAMebibyteAtMost) {
  const std::string script =
      "import h5py, numpy; f = h5py.File('" + path_ +
      "', 'w', libver='latest'); f.attrs['most'] = numpy.bytes_(b'x' * 2**20); "
      "f.attrs['more'] = numpy.bytes_(b'x' * (2**20 + 1))";
  ASSERT_EQ(std::system(("/usr/bin/python3 -c \"" + script + "\"").c_str()), 0);
  const File file = File::open(path_);
  EXPECT_EQ(file.text("most"), std::string(1 << 20, 'x'));
  EXPECT_FALSE(file.text("more"));
}

}  // namespace
}  // namespace dlrm::hdf5
