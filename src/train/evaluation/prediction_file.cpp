#include "prediction_file.h"

#include <cerrno>
#include <cstring>
#include <numeric>
#include <optional>
#include <vector>

#include "dlrm/core/partition.h"
#include "dlrm/core/replace_file.h"
#include "dlrm/hdf5/file.h"

#include "train/checkpoint/checkpoint_agreement.h"

namespace dlrm {

class PredictionFile::Writer {
 public:
  virtual ~Writer() = default;
  virtual void append(const std::vector<float>& probabilities,
                      const std::vector<float>& labels) = 0;
  virtual void finish() = 0;
};

namespace {

class CsvWriter final : public PredictionFile::Writer {
 public:
  explicit CsvWriter(const std::string& path) : partial_(path) {
    file_ = File::try_open(partial_.name(), File::Mode::kCreate);
    if (!file_) throw usage_error("--predict: cannot create {}: {}", path, std::strerror(errno));
    write("sample,label,probability\n");
  }

  void append(const std::vector<float>& probabilities, const std::vector<float>& labels) override {
    std::string lines;
    for (size_t i = 0; i < labels.size(); ++i) {
      // Nine digits give every float32 back.
      fmt::format_to(std::back_inserter(lines), "{},{:g},{:.9g}\n", samples_++, labels[i],
                     probabilities[i]);
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
  std::optional<File> file_;
  int64_t samples_ = 0, bytes_ = 0;
};

class Hdf5Writer final : public PredictionFile::Writer {
 public:
  Hdf5Writer(const std::string& path, int64_t samples) : partial_(path) {
    try {
      lay_out(samples);
      file_ = File(partial_.name(), File::Mode::kReadWrite);
    } catch (const Error& error) {
      throw usage_error("--predict: cannot create {}: {}", path, error.what());
    }
  }

  void append(const std::vector<float>& probabilities, const std::vector<float>& labels) override {
    numbers_.resize(labels.size());
    std::iota(numbers_.begin(), numbers_.end(), samples_);
    write<int64_t>(numbers_, sample_at_);
    write<float>(labels, label_at_);
    write<float>(probabilities, probability_at_);
    samples_ += static_cast<int64_t>(labels.size());
  }
  void finish() override { partial_.publish(*file_); }

 private:
  /// Lets HDF5 place the columns. Their values are written there directly.
  void lay_out(int64_t samples) {
    hdf5::File file = hdf5::File::create(partial_.name());
    file.set_text("format", "dlrm-predictions");
    const auto place_of = [&](const char* name, hdf5::Type type) {
      return file.create_dataset(name, type, {samples}).storage().offset;
    };
    sample_at_ = place_of("/sample", hdf5::Type::kInt64);
    label_at_ = place_of("/label", hdf5::Type::kFloat32);
    probability_at_ = place_of("/probability", hdf5::Type::kFloat32);
    file.close();
  }

  template <class T>
  void write(const std::vector<T>& values, int64_t column_at) {
    file_->write(values.data(), values.size() * sizeof(T),
                 column_at + samples_ * static_cast<int64_t>(sizeof(T)));
  }

  PartialFile partial_;
  std::optional<File> file_;
  int64_t sample_at_ = 0, label_at_ = 0, probability_at_ = 0;  // bytes
  int64_t samples_ = 0;
  std::vector<int64_t> numbers_;
};

std::unique_ptr<PredictionFile::Writer> make_writer(const std::string& path, int64_t samples) {
  check_prediction_name(path);
  if (path.ends_with(".csv")) return std::make_unique<CsvWriter>(path);
  return std::make_unique<Hdf5Writer>(path, samples);
}

}  // namespace

void check_prediction_name(const std::string& path) {
  if (path.ends_with(".csv") || path.ends_with(".h5")) return;
  throw usage_error("--predict {}: the name must end in .csv or .h5", path);
}

PredictionFile::PredictionFile(Communicator& comm, const std::string& path, int64_t samples)
    : comm_(comm) {
  agree_on_root(comm, [&] { writer_ = make_writer(path, samples); });
}

PredictionFile::~PredictionFile() = default;

void PredictionFile::append(int64_t size, View<const float> probabilities,
                            View<const float> labels) {
  std::vector<int64_t> counts;
  for (int r = 0; r < comm_.size(); ++r) counts.push_back(part_of(size, r, comm_.size()).size());
  const auto all_probabilities = comm_.gatherv<float>(probabilities, counts);
  const auto all_labels = comm_.gatherv<float>(labels, counts);
  agree_on_root(comm_, [&] { writer_->append(all_probabilities, all_labels); });
}

void PredictionFile::finish() {
  agree_on_root(comm_, [&] { writer_->finish(); });
}

}  // namespace dlrm
