#include "dlrm/data/dictionary_file.h"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <optional>

#include "dlrm/core/error.h"
#include "dlrm/core/replace_file.h"
#include "dlrm/hdf5/file.h"

namespace dlrm {
namespace {

constexpr const char* kFormat = "dlrm-dictionary";
constexpr int64_t kVersion = 1;
constexpr int64_t kFirstId = 1;

/// Builds the file's bytes in memory, because HDF5 handles a full disk badly.
std::vector<char> file_image(const std::string& path,
                             const std::vector<FeatureVocabulary>& features) {
  hdf5::File file = hdf5::File::create_in_memory(path);
  file.set_fixed_text("format", kFormat);
  file.set_integer("version", kVersion);
  file.set_integer("first_id", kFirstId);
  for (const FeatureVocabulary& feature : features) {
    hdf5::Dataset values =
        file.create_dataset("/" + feature.feature + "/values", hdf5::Type::kUint32,
                            {static_cast<int64_t>(feature.values.size())});
    values.write(View<const uint32_t>(feature.values));
    values.set_integer("missing_id", feature.missing_id);
  }
  return file.image();
}

FeatureVocabulary read_feature(const hdf5::File& file, const std::string& feature) {
  const std::string name = "/" + feature + "/values";
  const auto found = file.exists(name) ? file.find_dataset(name) : std::nullopt;
  if (!found) throw usage_error("{}: there is no {}; expected one a feature", file.path(), name);
  if (found->shape().size() != 1) {
    throw usage_error("{}: {} must have one dimension", file.path(), name);
  }
  const int64_t size = found->shape()[0];
  FeatureVocabulary result;
  result.feature = feature;
  result.missing_id = found->integer("missing_id").value_or(-1);
  if (result.missing_id < 0 || result.missing_id > size) {
    throw usage_error("{}: {} needs an attribute missing_id from 0 to {}", file.path(), name, size);
  }
  if (found->stored_bytes() / static_cast<int64_t>(sizeof(uint32_t)) < size) {
    throw usage_error("{}: {} was not written wholly", file.path(), name);
  }
  result.values = found->read<uint32_t>();
  return result;
}

}  // namespace

void write_dictionary_file(const std::string& path,
                           const std::vector<FeatureVocabulary>& features) {
  PartialFile partial(path);
  const std::vector<char> image = file_image(partial.name(), features);
  auto file = File::try_open(partial.name(), File::Mode::kCreate);
  if (!file) throw usage_error("{}: cannot create: {}", path, std::strerror(errno));
  file->write(image.data(), image.size(), 0);
  partial.publish(*file);
}

std::vector<FeatureVocabulary> read_dictionary_file(const std::string& path,
                                                    const std::vector<std::string>& features) {
  std::error_code ignored;
  const bool folder = std::filesystem::is_directory(path, ignored);
  const auto file = folder ? std::nullopt : hdf5::File::try_open(path);
  if (!file) throw usage_error("{}: not an HDF5 file; expected a dictionary", path);
  if (file->text("format") != kFormat) {
    throw usage_error("{}: not a dictionary; expected attribute format = {}", path, kFormat);
  }
  if (file->integer("version") != kVersion || file->integer("first_id") != kFirstId) {
    throw usage_error("{}: expected version {} and first_id {}", path, kVersion, kFirstId);
  }
  std::vector<FeatureVocabulary> result;
  for (const std::string& feature : features) result.push_back(read_feature(*file, feature));
  return result;
}

}  // namespace dlrm
