#include "prediction_file.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <numeric>
#include <optional>
#include <vector>

#include "dlrm/core/partition.h"
#include "dlrm/core/replace_file.h"
#include "dlrm/hdf5/file.h"

#include "train/checkpoint/checkpoint_agreement.h"

namespace dlrm {

/// Some samples in order, [labels, n].
struct PredictionFile::Block {
  int64_t samples = 0;
  std::vector<float> probabilities, labels;
};

class PredictionFile::Writer {
 public:
  virtual ~Writer() = default;
  virtual void append(const Block& block) = 0;
  virtual void finish() = 0;
};

namespace {

/// "_click" for the task click, or nothing for a model with one label.
std::vector<std::string> suffixes_of(const std::vector<std::string>& tasks) {
  if (tasks.empty()) return {""};
  std::vector<std::string> suffixes;
  for (const std::string& task : tasks) suffixes.push_back("_" + task);
  return suffixes;
}

/// Empty if the label is missing.
std::string label_text(float label) {
  return std::isnan(label) ? "," : fmt::format(",{:g}", label);
}

class CsvWriter final : public PredictionFile::Writer {
 public:
  CsvWriter(const std::string& path, const std::vector<std::string>& suffixes,
            const std::optional<PredictionKeys>& keys)
      : partial_(path), labels_(suffixes.size()), keys_(keys) {
    file_ = File::try_open(partial_.name(), File::Mode::kCreate);
    if (!file_) throw usage_error("--predict: cannot create {}: {}", path, std::strerror(errno));
    std::string names = "sample";
    if (keys_) {
      for (const std::string& name : keys_->names) names += "," + name;
    }
    for (const std::string& of : suffixes) {
      names += (keys_ ? "" : ",label" + of) + ",probability" + of;
    }
    write(names + "\n");
  }

  void append(const PredictionFile::Block& block) override {
    std::string lines;
    const auto to = std::back_inserter(lines);
    const auto n = static_cast<size_t>(block.samples);
    std::vector<std::string> keys;
    if (keys_ && !keys_->names.empty()) keys = keys_->of(samples_, samples_ + block.samples);
    for (size_t i = 0; i < n; ++i) {
      fmt::format_to(to, "{}", samples_++);
      if (!keys.empty()) lines += "," + keys[i];
      for (size_t k = i; k < n * labels_; k += n) {
        if (!keys_) lines += label_text(block.labels[k]);
        // Nine digits give every float32 back.
        fmt::format_to(to, ",{:.9g}", block.probabilities[k]);
      }
      lines += "\n";
    }
    write(lines);
  }
  void finish() override { partial_.publish(*file_); }

 private:
  void write(const std::string& text) {
    file_->write(text.data(), text.size(), bytes_);
    bytes_ += static_cast<int64_t>(text.size());
  }

  PartialFile partial_;
  const size_t labels_;
  const std::optional<PredictionKeys> keys_;
  std::optional<File> file_;
  int64_t samples_ = 0, bytes_ = 0;
};

class Hdf5Writer final : public PredictionFile::Writer {
 public:
  Hdf5Writer(const std::string& path, int64_t samples, const std::vector<std::string>& suffixes)
      : partial_(path) {
    try {
      lay_out(samples, suffixes);
      file_ = File(partial_.name(), File::Mode::kReadWrite);
    } catch (const Error& error) {
      throw usage_error("--predict: cannot create {}: {}", path, error.what());
    }
  }

  void append(const PredictionFile::Block& block) override {
    const auto n = static_cast<size_t>(block.samples);
    numbers_.resize(n);
    std::iota(numbers_.begin(), numbers_.end(), samples_);
    write(View<const int64_t>(numbers_), sample_at_);
    for (size_t label = 0; label < label_at_.size(); ++label) {
      write(View<const float>(block.labels).subspan(label * n, n), label_at_[label]);
      write(View<const float>(block.probabilities).subspan(label * n, n), probability_at_[label]);
    }
    samples_ += block.samples;
  }
  void finish() override { partial_.publish(*file_); }

 private:
  /// Lets HDF5 place the columns. Their values are written there directly.
  void lay_out(int64_t samples, const std::vector<std::string>& suffixes) {
    hdf5::File file = hdf5::File::create(partial_.name());
    file.set_text("format", "dlrm-predictions");
    const auto place_of = [&](const std::string& name, hdf5::Type type) {
      return file.create_dataset(name, type, {samples}).storage().offset;
    };
    sample_at_ = place_of("/sample", hdf5::Type::kInt64);
    for (const std::string& of : suffixes) {
      label_at_.push_back(place_of("/label" + of, hdf5::Type::kFloat32));
      probability_at_.push_back(place_of("/probability" + of, hdf5::Type::kFloat32));
    }
    file.close();
  }

  template <class T>
  void write(View<const T> values, int64_t column_at) {
    file_->write(values.data(), values.size_bytes(),
                 column_at + samples_ * static_cast<int64_t>(sizeof(T)));
  }

  PartialFile partial_;
  std::optional<File> file_;
  int64_t sample_at_ = 0;                           // bytes
  std::vector<int64_t> label_at_, probability_at_;  // by label
  int64_t samples_ = 0;
  std::vector<int64_t> numbers_;
};

std::unique_ptr<PredictionFile::Writer> make_writer(const std::string& path, int64_t samples,
                                                    const std::vector<std::string>& tasks,
                                                    const std::optional<PredictionKeys>& keys) {
  check_prediction_name(path, keys.has_value());
  if (path.ends_with(".csv")) return std::make_unique<CsvWriter>(path, suffixes_of(tasks), keys);
  return std::make_unique<Hdf5Writer>(path, samples, suffixes_of(tasks));
}

}  // namespace

void check_prediction_name(const std::string& path, bool of_records) {
  if (path.ends_with(".csv") || (path.ends_with(".h5") && !of_records)) return;
  throw usage_error("--predict {}: the name must end in .csv{}", path,
                    of_records ? ", as those of all predictions of --records" : " or .h5");
}

PredictionFile::PredictionFile(Communicator& comm, const std::string& path, int64_t samples,
                               const std::vector<std::string>& tasks,
                               const std::optional<PredictionKeys>& keys)
    : comm_(comm), labels_(std::max<size_t>(tasks.size(), 1)) {
  agree_on_root(comm, [&] { writer_ = make_writer(path, samples, tasks, keys); });
}

PredictionFile::~PredictionFile() = default;

void PredictionFile::append(int64_t size, View<const float> probabilities,
                            View<const float> labels) {
  // Label by label, so that samples are in order.
  std::vector<int64_t> counts;
  for (int r = 0; r < comm_.size(); ++r) counts.push_back(part_of(size, r, comm_.size()).size());
  Block block{size, {}, {}};
  const auto gather = [&](View<const float> mine, size_t label, std::vector<float>& all) {
    const size_t b = mine.size() / labels_;
    const auto gathered = comm_.gatherv<float>(mine.subspan(label * b, b), counts);
    all.insert(all.end(), gathered.begin(), gathered.end());
  };
  for (size_t label = 0; label < labels_; ++label) {
    gather(probabilities, label, block.probabilities);
    gather(labels, label, block.labels);
  }
  agree_on_root(comm_, [&] { writer_->append(block); });
}

void PredictionFile::finish() {
  agree_on_root(comm_, [&] { writer_->finish(); });
}

}  // namespace dlrm
