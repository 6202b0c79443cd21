#include "shuffle.h"

#include <algorithm>
#include <filesystem>
#include <functional>
#include <future>
#include <numeric>

#include <sys/stat.h>

#include "dlrm/core/cpus.h"
#include "dlrm/core/error.h"
#include "dlrm/core/file_lock.h"
#include "dlrm/core/folder_lock.h"
#include "dlrm/core/random.h"
#include "dlrm/core/replace_file.h"
#include "dlrm/data/dataset_writer.h"

#include "bucket_file.h"
#include "loaded_bucket.h"
#include "sample_codec.h"
#include "shuffle_sizes.h"
#include "shuffle_state.h"
#include "task_team.h"

namespace dlrm {
namespace {

namespace fs = std::filesystem;

/// Consecutive samples of the inputs.
struct Part {
  const DatasetFile* file;
  Range samples;  ///< of the file
  int64_t first;  ///< number of the first over all files
};

/// Lets the system read parts ahead, in the background and in long pieces of each column.
class ReadAhead {
 public:
  /// Reads `count` parts or more at a time.
  ReadAhead(const std::vector<Part>& parts, int64_t count)
      : parts_(parts), count_(static_cast<size_t>(std::max<int64_t>(count, 1))) {}

  /// Parts [begin, end) are used next, and those before `begin` no longer.
  void use(size_t begin, size_t end) {
    const size_t unused = std::min(begin, parts_.size());
    const bool drop = unused - dropped_ >= count_ || unused == parts_.size();
    if (advised_ >= std::min(end + count_, parts_.size()) && !drop) return;
    if (advising_.valid()) advising_.get();
    const size_t from = advised_, to = std::min(end + 2 * count_, parts_.size());
    const size_t old = dropped_;
    advising_ = std::async(std::launch::async, [this, from, to, old, unused] {
      advise(from, to, PageAdvice::kWillNeed);
      advise(old, unused, PageAdvice::kDontNeed);
    });
    advised_ = std::max(advised_, to);
    dropped_ = unused;
  }

 private:
  void advise(size_t from, size_t to, PageAdvice advice) const {
    while (from < to) {
      const Part& first = parts_[from];
      Range samples = first.samples;
      for (++from; from < to && parts_[from].file == first.file; ++from) {
        samples.end = parts_[from].samples.end;
      }
      advise_samples(*first.file, samples, advice);
    }
  }

  const std::vector<Part>& parts_;
  size_t count_;
  size_t advised_ = 0, dropped_ = 0;
  std::future<void> advising_;
};

class Shuffle {
 public:
  Shuffle(const ShuffleOptions& options, const Dataset& dataset)
      : options_(options),
        dataset_(dataset),
        codec_(dataset),
        team_(options.threads > 0 ? options.threads : usable_cpus()),
        sizes_(shuffle_sizes(options.memory, codec_, team_.threads())),
        key_(stream_key(options.seed, "shuffle")),
        folder_(options.output + ".shuffle") {}

  ShuffleReport run() {
    make_folder();
    {
      const FolderLock lock(folder_);
      ShuffleState state = earlier_state();
      ShuffleReport report{
          codec_.layout().samples, codec_.total_bytes(), sizes_.buckets, state.samples, 0, 0};
      if (!fs::exists(shuffled())) {
        BucketFile buckets(folder_ + "/samples", sizes_.buckets, sizes_.buffer,
                           std::move(state.segments),
                           codec_.total_bytes() + 8 * codec_.layout().samples);
        distribute(buckets, state);
        sort(buckets, state.sum);
      }
      report.sum_low = state.sum.low;
      report.sum_high = state.sum.high;
      publish();
      remove_contents();
      report_ = report;
    }
    fs::remove_all(folder_);
    return report_;
  }

 private:
  std::string shuffled() const { return folder_ + "/shuffled.h5"; }
  std::string state_path() const { return folder_ + "/state"; }

  void make_folder() {
    std::error_code error;
    fs::create_directory(folder_, error);
    if (error) throw usage_error("{}: cannot create: {}", folder_, error.message());
  }

  void remove_contents() {
    for (const char* name : {"/state", "/samples", "/shuffled.h5"}) fs::remove(folder_ + name);
  }

  /// Identifies the inputs and everything on which buckets depend.
  std::string task() const {
    std::string text = fmt::format("4 {} {} {}", options_.seed, sizes_.buckets, sizes_.buffer);
    for (const auto& file : dataset_.files()) {
      struct stat status {};
      if (stat(file->path().c_str(), &status) != 0) continue;
      text += fmt::format(" {}:{}:{}:{}", status.st_dev, status.st_ino, status.st_size,
                          status.st_mtim.tv_sec * 1000000000 + status.st_mtim.tv_nsec);
    }
    return text;
  }

  ShuffleState earlier_state() {
    if (auto state = read_shuffle_state(state_path()); state && state->task == task()) {
      return *state;
    }
    remove_contents();
    ShuffleState state;
    state.task = task();
    return state;
  }

  /// The parts of [from, samples) that begin at multiples of `block` in their file.
  std::vector<Part> parts_of(const Dataset& dataset, int64_t from) const {
    std::vector<Part> parts;
    for (size_t f = 0; f < dataset.files().size(); ++f) {
      const DatasetFile& file = *dataset.files()[f];
      for (int64_t begin = 0; begin < file.samples(); begin += sizes_.block) {
        const int64_t first = dataset.starts()[f] + begin;
        const int64_t end = std::min(begin + sizes_.block, file.samples());
        if (first >= from) parts.push_back({&file, {begin, end}, first});
      }
    }
    return parts;
  }

  /// Some parts that are encoded at the same time.
  struct Encoded {
    std::vector<Part> parts;
    std::vector<EncodedSamples> samples;
    std::vector<std::vector<uint64_t>> keys;
    std::vector<SampleSum> sums;
  };

  /// Encodes parts on all threads and passes the samples of each to `take`, in order and one at a
  /// time, while the next are encoded.
  template <class Take>
  void encode(const std::vector<Part>& parts, const Take& take) {
    const auto most = static_cast<size_t>(team_.threads()) * kBlocksPerThread;
    Encoded now, next;
    ReadAhead ahead(parts, sizes_.ahead / sizes_.block);
    std::vector<std::function<void()>> tasks;
    for (size_t at = 0; at < parts.size() || !now.parts.empty(); at += most) {
      const auto part = [&](size_t i) { return parts.begin() + static_cast<ptrdiff_t>(i); };
      next.parts.assign(part(std::min(at, parts.size())), part(std::min(at + most, parts.size())));
      next.samples.resize(most);
      next.keys.resize(most);
      next.sums.resize(most);
      ahead.use(at, at + most);
      tasks.clear();
      tasks.emplace_back([&] {
        for (size_t i = 0; i < now.parts.size(); ++i) {
          take(now.parts[i], now.samples[i], now.keys[i], now.sums[i]);
        }
      });
      for (size_t i = 0; i < next.parts.size(); ++i) {
        tasks.emplace_back([&, i] { encode_part(next, i); });
      }
      team_.run(tasks);
      std::swap(now, next);
    }
  }

  void encode_part(Encoded& out, size_t i) const {
    const Part& part = out.parts[i];
    check_sums(part);
    codec_.encode(*part.file, part.samples, out.samples[i]);
    out.sums[i] = {};
    out.sums[i].add(out.samples[i]);
    draw_keys(part, out.keys[i]);
  }

  /// Compares a block with its checksums, when its first part is read.
  void check_sums(const Part& part) const {
    const int64_t block = part.file->checksum_samples();
    if (block == 0) return;
    std::vector<size_t> features(part.file->features().size());
    std::iota(features.begin(), features.end(), size_t{0});
    for (int64_t b = (part.samples.begin + block - 1) / block; b * block < part.samples.end; ++b) {
      part.file->verify(b, features);
    }
  }

  void draw_keys(const Part& part, std::vector<uint64_t>& keys) const {
    keys.resize(static_cast<size_t>(part.samples.size()));
    for (size_t i = 0; i < keys.size(); ++i) {
      const auto sample = static_cast<uint64_t>(part.first) + i;
      const auto words =
          philox(key_, {static_cast<uint32_t>(sample), static_cast<uint32_t>(sample >> 32), 0, 0});
      keys[i] = static_cast<uint64_t>(words[1]) << 32 | words[0];
    }
  }

  /// The first pass. The state is saved now and then, and at the end.
  void distribute(BucketFile& buckets, ShuffleState& state) {
    int64_t unsaved = 0;
    const auto save = [&] {
      buckets.save();
      state.segments = buckets.segments();
      write_shuffle_state(state_path(), state);
      unsaved = 0;
    };
    if (state.samples == codec_.layout().samples && state.samples > 0) return;
    encode(parts_of(dataset_, state.samples),
           [&](const Part& part, const EncodedSamples& samples, const std::vector<uint64_t>& keys,
               const SampleSum& sum) {
             for (size_t i = 0; i < keys.size(); ++i) {
               const int64_t bucket = bucket_of(keys[i], sizes_.buckets);
               buckets.append(bucket, &keys[i], sizeof(keys[i]));
               buckets.append(bucket, samples.sample(i), samples.size(i));
             }
             state.sum.add(sum);
             state.samples = part.first + part.samples.size();
             unsaved += static_cast<int64_t>(samples.bytes.size());
             if (unsaved >= options_.save_every) save();
           });
    for (const auto& file : dataset_.files()) file->check_whole();
    save();
  }

  /// The second pass. `expected` is the sum of the inputs' samples.
  void sort(BucketFile& buckets, const SampleSum& expected) {
    buckets.end_appending();
    DatasetLayout layout = codec_.layout();
    layout.preprocessing = dataset_.preprocessing().bytes;
    DatasetWriter writer(shuffled(), std::move(layout), sizes_.columns);
    const int64_t most = buckets.bytes_of_largest_bucket();
    LoadedBucket one(codec_, sizes_, most), other(codec_, sizes_, most);
    LoadedBucket *now = &one, *next = &other;
    SampleSum written;
    bool sound = now->load(buckets, 0);
    for (int64_t bucket = 0; bucket < sizes_.buckets; ++bucket) {
      if (!sound || writer.samples() + now->samples() > codec_.layout().samples) {
        fail_faulty(bucket);
      }
      std::future<bool> loading;
      if (bucket + 1 < sizes_.buckets) {
        loading = std::async(std::launch::async, [&] { return next->load(buckets, bucket + 1); });
      }
      append(writer, *now, written);
      if (loading.valid()) sound = loading.get();
      std::swap(now, next);
    }
    compare(expected, written, writer.samples());
    writer.finish();
  }

  /// Samples that are decoded at the same time, a part of a bucket each.
  struct Decoded {
    size_t count = 0;
    std::vector<DecodedBlock> blocks;
    std::vector<SampleSum> sums;
  };

  /// Sorts and decodes on all threads, and appends some parts while the next are decoded. Adds the
  /// samples to `written`, as they are in the columns that the writer gets.
  void append(DatasetWriter& writer, LoadedBucket& bucket, SampleSum& written) {
    const auto most = static_cast<size_t>(team_.threads()) * kBlocksPerThread;
    Decoded now, next;
    for (Decoded* decoded : {&now, &next}) {
      decoded->blocks.resize(most);
      decoded->sums.resize(most);
    }
    std::vector<std::function<void()>> tasks;
    for (size_t at = 0; at < bucket.parts() || now.count > 0; at += most) {
      next.count = std::min(most, bucket.parts() - std::min(at, bucket.parts()));
      tasks.clear();
      tasks.emplace_back([&] {
        for (size_t i = 0; i < now.count; ++i) {
          writer.append(now.blocks[i].view());
          written.add(now.sums[i]);
        }
      });
      for (size_t i = 0; i < next.count; ++i) {
        tasks.emplace_back([&, i] {
          std::vector<const std::byte*> begins;
          bucket.sort(at + i, begins);
          codec_.decode(begins.data(), begins.size(), next.blocks[i]);
          next.sums[i] = codec_.sum_of(next.blocks[i]);
        });
      }
      team_.run(tasks);
      std::swap(now, next);
    }
  }

  /// Compares the sum of the samples that were handed to the writer with that of the inputs.
  void compare(const SampleSum& expected, const SampleSum& found, int64_t samples) {
    if (found == expected && samples == codec_.layout().samples) return;
    remove_contents();
    throw run_error(
        "{}: not written, because {} samples with sum {:016x}{:016x} became {} with "
        "{:016x}{:016x}: memory or a disk is faulty",
        options_.output, codec_.layout().samples, expected.high, expected.low, samples, found.high,
        found.low);
  }

  [[noreturn]] void fail_faulty(int64_t bucket) {
    remove_contents();
    throw run_error(
        "{}: not written, because samples of bucket {} in {}/samples are not those that were "
        "written there: memory or a disk is faulty",
        options_.output, bucket, folder_);
  }

  void publish() {
    std::error_code error;
    fs::rename(shuffled(), options_.output, error);
    if (error) throw run_error("{}: cannot be written: {}", options_.output, error.message());
    const fs::path parent = fs::path(options_.output).parent_path();
    sync_folder(parent.empty() ? "." : parent.string());
  }

  const ShuffleOptions& options_;
  const Dataset& dataset_;
  SampleCodec codec_;
  TaskTeam team_;
  ShuffleSizes sizes_;
  uint64_t key_;
  std::string folder_;
  ShuffleReport report_;
};

void check_output(const ShuffleOptions& options, const Dataset& dataset) {
  std::error_code ignored;
  if (fs::exists(options.output, ignored) && !fs::is_regular_file(options.output, ignored)) {
    throw usage_error("--output {}: is there and is no regular file: name another", options.output);
  }
  for (const auto& file : dataset.files()) {
    if (fs::equivalent(file->path(), options.output, ignored)) {
      throw usage_error("--output {}: is an input", options.output);
    }
  }
}

}  // namespace

ShuffleReport shuffle_dataset(const ShuffleOptions& options) {
  const Dataset dataset(options.inputs);
  check_output(options, dataset);
  const FileLock lock(options.output);  // also of the folder of the shuffle
  try {
    return Shuffle(options, dataset).run();
  } catch (const Error&) {
    // A file that was cut short has zeros in the place of values.
    for (const auto& file : dataset.files()) file->check_whole();
    throw;
  }
}

}  // namespace dlrm
