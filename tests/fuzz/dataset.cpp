// A dataset file that the HDF5 library can read, with unusual metadata. The library itself is not
// fuzzed: it ends with SIGSEGV on damaged files, which is why the product reads metadata in a
// child process. `byte` lines change what that child sends, `cut` lines shorten the file.
//
//   data NAME TYPE LAYOUT DIMENSION...      fill NAME VALUE...      attr OBJECT NAME TYPE VALUE...
//   group NAME      link NAME TARGET        byte AT VALUE           cut BYTES
#include <hdf5.h>
#include <unistd.h>

#include "dlrm/core/file.h"
#include "dlrm/data/dataset_file.h"

#include "data/mapped_file.h"
#include "data/structure_bytes.h"
#include "data/structure_reader.h"
#include "fuzz.h"

namespace dlrm::fuzz {
namespace {

using Words = std::vector<std::string_view>;

constexpr hsize_t kMostBytes = 65536;  // of a column that is written

hid_t type_of(std::string_view name) {
  if (name == "u8") return H5T_STD_U8LE;
  if (name == "i8") return H5T_STD_I8LE;
  if (name == "i16") return H5T_STD_I16LE;
  if (name == "i32") return H5T_STD_I32LE;
  if (name == "u32") return H5T_STD_U32LE;
  if (name == "i64") return H5T_STD_I64LE;
  if (name == "u64") return H5T_STD_U64LE;
  if (name == "big") return H5T_STD_I64BE;
  if (name == "f64") return H5T_IEEE_F64LE;
  return H5T_IEEE_F32LE;
}

/// Builds a file from lines. What the library refuses is left out.
class Builder {
 public:
  explicit Builder(const char* path) {
    const hdf5::Handle access(H5Pcreate(H5P_FILE_ACCESS));
    H5Pset_fapl_core(access.id(), 8192, true);
    file_ = hdf5::Handle(H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, access.id()));
    if (!file_.ok()) fail("cannot create {}", path);
    links_ = hdf5::Handle(H5Pcreate(H5P_LINK_CREATE));
    H5Pset_create_intermediate_group(links_.id(), 1);
  }

  void add(const Words& words) {
    if (words[0] == "data" && words.size() > 3) add_data(words);
    if (words[0] == "fill" && words.size() > 1) fill(words);
    if (words[0] == "attr" && words.size() > 4) add_attribute(words);
    if (words[0] == "group" && words.size() > 1) {
      const hdf5::Handle made(
          H5Gcreate2(file_.id(), text(words[1]).c_str(), links_.id(), H5P_DEFAULT, H5P_DEFAULT));
    }
    if (words[0] == "link" && words.size() > 2) {
      H5Lcreate_soft(text(words[2]).c_str(), file_.id(), text(words[1]).c_str(), links_.id(),
                     H5P_DEFAULT);
    }
  }

  void close() {
    if (H5Fclose(file_.release()) < 0) fail("cannot write the file");
  }

 private:
  static std::string text(std::string_view word) { return std::string(word); }

  void add_data(const Words& words) {
    const std::string_view layout = words[3];
    const hid_t type = type_of(words[2]);
    std::vector<hsize_t> shape;
    hsize_t bytes = H5Tget_size(type);
    for (size_t i = 4; i < std::min<size_t>(words.size(), 8); ++i) {
      shape.push_back(number<hsize_t>(words[i]));
      bytes = shape.back() > kMostBytes ? kMostBytes + 1
                                        : std::min(bytes * shape.back(), kMostBytes + 1);
    }
    const hdf5::Handle space(
        shape.empty() ? H5Screate(H5S_SCALAR)
                      : H5Screate_simple(static_cast<int>(shape.size()), shape.data(), nullptr));
    const hdf5::Handle creation(H5Pcreate(H5P_DATASET_CREATE));
    if (layout == "chunked") {
      const std::vector<hsize_t> chunk(shape.size(), 1);
      H5Pset_chunk(creation.id(), static_cast<int>(chunk.size()), chunk.data());
    } else if (layout == "compact" && bytes <= kMostBytes) {
      H5Pset_layout(creation.id(), H5D_COMPACT);
    } else if (layout == "external") {
      H5Pset_external(creation.id(), "nowhere.raw", 0, H5F_UNLIMITED);
    } else if (layout == "early" && bytes <= kMostBytes) {
      H5Pset_alloc_time(creation.id(), H5D_ALLOC_TIME_EARLY);
    }
    const hdf5::Handle made(H5Dcreate2(file_.id(), text(words[1]).c_str(), type, space.id(),
                                       links_.id(), creation.id(), H5P_DEFAULT));
  }

  void fill(const Words& words) {
    const hdf5::Handle data(H5Dopen2(file_.id(), text(words[1]).c_str(), H5P_DEFAULT));
    const hdf5::Handle space(H5Dget_space(data.id()));
    const hssize_t elements = space.ok() ? H5Sget_simple_extent_npoints(space.id()) : 0;
    if (elements < 1 || elements > 1024) return;
    std::vector<int64_t> values(static_cast<size_t>(elements));
    for (size_t i = 2; i < std::min(words.size(), values.size() + 2); ++i) {
      values[i - 2] = number(words[i]);
    }
    H5Dwrite(data.id(), H5T_NATIVE_INT64, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data());
  }

  void add_attribute(const Words& words) {
    const hdf5::Handle object(H5Oopen(file_.id(), text(words[1]).c_str(), H5P_DEFAULT));
    const std::string name(words[2]), value(words[4]);
    if (!object.ok()) return;
    if (H5Aexists(object.id(), name.c_str()) > 0) H5Adelete(object.id(), name.c_str());
    const bool variable = words[3] == "vtext";
    const bool is_text = variable || words[3] == "text";
    const hdf5::Handle type(H5Tcopy(is_text ? H5T_C_S1 : type_of(words[3])));
    if (is_text)
      H5Tset_size(type.id(), variable ? H5T_VARIABLE : std::max<size_t>(1, value.size()));
    std::vector<int64_t> numbers;
    for (size_t i = 4; i < words.size(); ++i) numbers.push_back(number(words[i]));
    const hsize_t count = numbers.size();
    const hdf5::Handle space(is_text || count == 1 ? H5Screate(H5S_SCALAR)
                                                   : H5Screate_simple(1, &count, nullptr));
    const hdf5::Handle made(
        H5Acreate2(object.id(), name.c_str(), type.id(), space.id(), H5P_DEFAULT, H5P_DEFAULT));
    const char* begin = value.c_str();
    if (is_text) {
      H5Awrite(made.id(), type.id(), variable ? static_cast<const void*>(&begin) : begin);
    } else {
      H5Awrite(made.id(), H5T_NATIVE_INT64, numbers.data());
    }
  }

  hdf5::Handle file_;
  hdf5::Handle links_;
};

/// Sends the structure as the child does. Returns false if the parent refuses the changed bytes.
bool sent(DatasetStructure& structure, const std::vector<Words>& lines) {
  Packer packer;
  visit(packer, structure);
  for (const Words& words : lines) {
    if (words[0] != "byte" || words.size() < 3) continue;
    packer.bytes[number<size_t>(words[1]) % packer.bytes.size()] =
        static_cast<char>(number(words[2]));
  }
  return accepted(ExitCode::kFailure, [&] {
    Unpacker unpacker(packer.bytes);
    visit(unpacker, structure);
    check_structure(structure);
  });
}

/// Checks that columns lie within the mapped file.
class Bounds {
 public:
  Bounds(const std::byte* begin, int64_t bytes) : begin_(begin), bytes_(bytes) {}

  void check(const std::byte* column, int64_t elements, int64_t width) const {
    if (column == nullptr) return;
    const __int128 bytes = static_cast<__int128>(elements) * width;
    if (bytes < 0 || column < begin_ || bytes > bytes_ - (column - begin_)) fail("out of bounds");
  }

  void check_all(const DatasetFile& file) const {
    check(file.labels(), file.samples(), file.label_bytes());
    check(file.weights(), file.samples(), 4);
    check(file.dense(), file.samples(), file.dense_width() * 4);
    for (const MappedFeature& f : file.features()) {
      const int64_t ids = f.hotness > 0 ? file.samples() * f.hotness : f.count;
      check(f.ids, ids, f.type == IdType::kInt32 ? 4 : 8);
      check(f.offsets, file.samples() + 1, 8);
      check(f.id_sums, file.blocks(), 4);
      check(f.offset_sums, file.blocks(), 4);
    }
  }

 private:
  const std::byte* begin_;
  int64_t bytes_;
};

/// Maps the file and reads the first and last few blocks.
void read_mapped(const std::string& path, const DatasetStructure& structure) {
  constexpr int64_t kBlocks = 4;
  auto mapped = std::make_unique<MappedFile>(path);
  const Bounds bounds(mapped->column("its begin", 0, 1, 1), File(path, File::Mode::kRead).size());
  const DatasetFile file(std::move(mapped), structure);
  bounds.check_all(file);
  std::vector<size_t> features(file.features().size());
  for (size_t f = 0; f < features.size(); ++f) features[f] = f;
  for (int64_t b = 0; b < std::min(kBlocks, file.blocks()); ++b) {
    file.verify(b, View<const size_t>(features));
    file.verify(file.blocks() - 1 - b, View<const size_t>(features));
  }
}

}  // namespace
}  // namespace dlrm::fuzz

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  // The library keeps its blocks of memory. It would map half a megabyte for each open file.
  H5set_free_list_limits(-1, -1, -1, -1, -1, -1);
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace dlrm;
  using namespace dlrm::fuzz;
  constexpr const char* kPath = "fuzz.h5";
  H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
  std::vector<Words> lines;
  for (const std::string_view line : split({reinterpret_cast<const char*>(data), size}, '\n')) {
    lines.push_back(split(line, ' '));
  }
  Builder builder(kPath);
  for (const Words& words : lines) builder.add(words);
  builder.close();
  DatasetStructure structure;
  if (!accepted(ExitCode::kUsage, [&] { structure = StructureReader(kPath).read(); })) {
    return 0;
  }
  if (!sent(structure, lines)) return 0;
  for (const Words& words : lines) {
    if (words[0] != "cut" || words.size() < 2) continue;
    if (::truncate(kPath, number<uint16_t>(words[1])) != 0) fail("cannot cut {}", kPath);
  }
  accepted(ExitCode::kUsage, [&] { read_mapped(kPath, structure); });
  return 0;
}
