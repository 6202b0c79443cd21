#include "shuffle.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <functional>
#include <future>
#include <numeric>
#include <optional>

#include <sys/stat.h>

#include "dlrm/core/cpus.h"
#include "dlrm/core/error.h"
#include "dlrm/core/folder_lock.h"
#include "dlrm/core/random.h"
#include "dlrm/core/replace_file.h"
#include "dlrm/data/dataset_writer.h"

#include "bucket_file.h"
#include "sample_codec.h"
#include "shuffle_sizes.h"
#include "shuffle_state.h"
#include "task_team.h"

namespace dlrm {
namespace {

namespace fs = std::filesystem;

/// A sample of a bucket.
struct Place {
  uint64_t key;
  size_t at;  ///< first byte after the key
  bool operator<(const Place& other) const {
    return key < other.key || (key == other.key && at < other.at);
  }
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
                           std::move(state.segments));
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
  struct Part {
    const DatasetFile* file;
    Range samples;  ///< of the file
    int64_t first;  ///< number of the first over all files
  };
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
    const auto threads = static_cast<size_t>(team_.threads());
    Encoded now, next;
    std::vector<std::function<void()>> tasks;
    for (size_t at = 0; at < parts.size() || !now.parts.empty(); at += threads) {
      const auto part = [&](size_t i) { return parts.begin() + static_cast<ptrdiff_t>(i); };
      next.parts.assign(part(std::min(at, parts.size())),
                        part(std::min(at + threads, parts.size())));
      next.samples.resize(threads);
      next.keys.resize(threads);
      next.sums.resize(threads);
      for (size_t i = at + threads; i < std::min(at + 2 * threads, parts.size()); ++i) {
        advise_samples(*parts[i].file, parts[i].samples, PageAdvice::kWillNeed);
      }
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
    advise_samples(*part.file, part.samples, PageAdvice::kDontNeed);
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
    DatasetWriter writer(shuffled(), codec_.layout());
    std::vector<std::byte> bytes, next;
    std::vector<Place> places;
    SampleSum written;
    buckets.read(0, bytes);
    for (int64_t bucket = 0; bucket < sizes_.buckets; ++bucket) {
      std::future<void> reading;
      if (bucket + 1 < sizes_.buckets) {
        reading = std::async(std::launch::async, [&] { buckets.read(bucket + 1, next); });
      }
      find_places(bytes, bucket, places);
      if (writer.samples() + std::ssize(places) > codec_.layout().samples) fail_faulty(bucket);
      sort_places(places, bucket);
      append(writer, bytes, places, written);
      if (!reading.valid()) break;
      reading.get();
      std::swap(bytes, next);
    }
    compare(expected, written, writer.samples());
    writer.finish();
  }

  /// A faulty disk may have changed keys and numbers of ids, on which places in memory depend.
  void find_places(const std::vector<std::byte>& bytes, int64_t bucket,
                   std::vector<Place>& places) {
    const std::byte* const end = bytes.data() + bytes.size();
    places.clear();
    for (size_t at = 0; at < bytes.size();) {
      uint64_t key = 0;
      if (bytes.size() - at >= 8) std::memcpy(&key, bytes.data() + at, 8);
      at += 8;
      const size_t size = at < bytes.size() ? codec_.size_at(bytes.data() + at, end) : 0;
      if (size == 0 || bucket_of(key, sizes_.buckets) != bucket) fail_faulty(bucket);
      places.push_back({key, at});
      at += size;
    }
  }

  /// Sorts ranges of keys on all threads.
  void sort_places(std::vector<Place>& places, int64_t bucket) {
    const auto parts = static_cast<int64_t>(team_.threads()) * 2;
    // The keys of a bucket are evenly spread over its range.
    const auto part_of_key = [&](uint64_t key) {
      return bucket_of(key, sizes_.buckets * parts) - bucket * parts;
    };
    std::vector<std::vector<Place>> cut(static_cast<size_t>(parts));
    for (std::vector<Place>& part : cut) part.reserve(places.size() / cut.size() * 9 / 8 + 16);
    for (const Place& place : places)
      cut[static_cast<size_t>(part_of_key(place.key))].push_back(place);
    std::vector<std::function<void()>> tasks;
    for (std::vector<Place>& part : cut) {
      tasks.emplace_back([&part] { std::sort(part.begin(), part.end()); });
    }
    team_.run(tasks);
    places.clear();
    for (const std::vector<Place>& part : cut)
      places.insert(places.end(), part.begin(), part.end());
  }

  /// Samples that are decoded at the same time, a block a thread.
  struct Decoded {
    size_t count = 0;
    std::vector<DecodedBlock> blocks;
    std::vector<SampleSum> sums;
  };

  /// Decodes on all threads, and appends a group of blocks while the next are decoded. Adds the
  /// samples to `written`, as they are in the columns that the writer gets.
  void append(DatasetWriter& writer, const std::vector<std::byte>& bytes,
              const std::vector<Place>& places, SampleSum& written) {
    const auto threads = static_cast<size_t>(team_.threads());
    const auto block = static_cast<size_t>(sizes_.block);
    Decoded now, next;
    now.blocks.resize(threads);
    next.blocks.resize(threads);
    now.sums.resize(threads);
    next.sums.resize(threads);
    std::vector<std::function<void()>> tasks;
    for (size_t at = 0; at < places.size() || now.count > 0; at += threads * block) {
      const size_t left = places.size() - std::min(at, places.size());
      next.count = std::min(threads, (left + block - 1) / block);
      tasks.clear();
      tasks.emplace_back([&] {
        for (size_t i = 0; i < now.count; ++i) {
          writer.append(now.blocks[i].view());
          written.add(now.sums[i]);
        }
      });
      for (size_t i = 0; i < next.count; ++i) {
        tasks.emplace_back([&, i] {
          const size_t from = at + i * block, to = std::min(from + block, places.size());
          std::vector<const std::byte*> begins;
          begins.reserve(to - from);
          for (size_t p = from; p < to; ++p) begins.push_back(bytes.data() + places[p].at);
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
  try {
    return Shuffle(options, dataset).run();
  } catch (const Error&) {
    // A file that was cut short has zeros in the place of values.
    for (const auto& file : dataset.files()) file->check_whole();
    throw;
  }
}

}  // namespace dlrm
