#include "criteo_fixture.h"

#include <algorithm>
#include <cstring>
#include <fstream>
#include <random>

#include <isa-l/igzip_lib.h>
#include <stdlib.h>

#include "dlrm/data/dataset_file.h"

#include "error_of.h"

namespace dlrm {

Converted read_converted(const std::string& path) {
  const DatasetFile file(path);
  EXPECT_EQ(file.dense_width(), 13);
  EXPECT_EQ(file.label_type(), LabelType::kUint8);
  EXPECT_EQ(file.features().size(), 26u);
  Converted result;
  const auto samples = static_cast<size_t>(file.samples());
  for (size_t i = 0; i < samples; ++i) {
    result.labels.push_back(static_cast<int>(file.labels()[i]));
  }
  result.dense.resize(samples * 13);
  std::memcpy(result.dense.data(), file.dense(), result.dense.size() * sizeof(float));
  for (size_t f = 0; f < 26; ++f) {
    const MappedFeature* feature = file.find(criteo_feature_name(f));
    EXPECT_EQ(feature->hotness, 1);
    EXPECT_EQ(feature->type, IdType::kInt32);
    std::vector<int32_t> ids(samples);
    std::memcpy(ids.data(), feature->ids, samples * sizeof(int32_t));
    result.ids[f].assign(ids.begin(), ids.end());
    result.rows[f] = feature->rows;
    for (const int64_t id : result.ids[f]) EXPECT_TRUE(id >= 0 && id < feature->rows);
  }
  return result;
}

std::string LogLine::text() const {
  std::string line = label;
  for (const std::string& number : numbers) line.append(1, '\t').append(number);
  for (const std::string& category : categories) line.append(1, '\t').append(category);
  return line;
}

std::string text_of(const std::vector<LogLine>& lines) {
  std::string text;
  for (const LogLine& line : lines) text.append(line.text()).append(1, '\n');
  return text;
}

std::vector<LogLine> generated_lines(size_t count, unsigned seed) {
  std::mt19937 generator(seed);
  const auto below = [&](size_t n) { return static_cast<size_t>(generator() % n); };
  std::vector<LogLine> lines(count);
  for (LogLine& line : lines) {
    line.label.front() = below(4) == 0 ? '1' : '0';
    for (std::string& number : line.numbers) {
      if (below(5) > 0) number = std::to_string(static_cast<int64_t>(below(20000)) - 2);
    }
    for (size_t f = 0; f < 26; ++f) {
      if (below(10) == 0) continue;
      const size_t distinct = size_t{2} << (f % 17);
      line.categories[f] =
          fmt::format("{:08x}", static_cast<uint32_t>(below(distinct) * 2654435761u + f));
    }
  }
  return lines;
}

std::string gzipped(const std::string& text) {
  std::string out(text.size() * 2 + 4096, '\0');
  isal_zstream stream;
  isal_deflate_init(&stream);
  stream.gzip_flag = IGZIP_GZIP;
  stream.end_of_stream = 1;
  stream.next_in = reinterpret_cast<uint8_t*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uint32_t>(text.size());
  stream.next_out = reinterpret_cast<uint8_t*>(out.data());
  stream.avail_out = static_cast<uint32_t>(out.size());
  EXPECT_EQ(isal_deflate(&stream), COMP_OK);
  out.resize(stream.total_out);
  return out;
}

InFolder::InFolder() {
  std::string name = (std::filesystem::temp_directory_path() / "criteo_XXXXXX").string();
  EXPECT_NE(::mkdtemp(name.data()), nullptr);
  folder_ = name;
}

InFolder::~InFolder() { std::filesystem::remove_all(folder_); }

std::string InFolder::write(const std::string& name, const std::string& content) const {
  std::ofstream out(path(name), std::ios::binary);
  out.write(content.data(), static_cast<std::streamsize>(content.size()));
  return path(name);
}

std::string InFolder::content(const std::string& name) const {
  std::ifstream in(path(name), std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

CriteoReport InFolder::convert(CriteoOptions options) const {
  if (options.threads == 0) options.threads = 2;
  return convert_criteo(options);
}

CriteoOptions InFolder::options(const std::vector<std::string>& inputs,
                                const std::string& output) const {
  CriteoOptions options;
  for (const std::string& input : inputs) options.inputs.push_back(path(input));
  options.output = path(output);
  return options;
}

std::string InFolder::conversion_error(const CriteoOptions& options) const {
  const std::vector<std::string> before = files();
  const std::string error = usage_error_of([&] { convert(options); });
  EXPECT_EQ(files(), before);
  return error;
}

std::vector<std::string> InFolder::files() const {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder_)) {
    names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace dlrm
