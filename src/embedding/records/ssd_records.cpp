#include "ssd_records.h"

#include <algorithm>
#include <cstring>

#include "dlrm/core/error.h"
#include "dlrm/plan/cache_size.h"

namespace dlrm {

namespace {

constexpr int kCompactionDepth = 16;
constexpr size_t kPlacesAhead = 16;
static_assert(kSortedBytes == sizeof(Wanted) + sizeof(int64_t), "of a record, beside its own");

}  // namespace

SsdRecords::SsdRecords(int64_t rows, int64_t record_bytes, const SsdRecordsOptions& options,
                       std::unique_ptr<BlockFile> file)
    : label_(fmt::format("{}: rows of {}", options.directory, options.name)),
      layout_(rows, record_bytes, options),
      segments_sorted_(static_cast<size_t>(std::max<int64_t>(
          options.sort_bytes / (layout_.segment_records * (record_bytes + kSortedBytes)), 1))),
      file_(std::move(file)),
      places_(rows),
      sums_(layout_.most_segments * layout_.segment_blocks, label_),
      open_(layout_),
      reader_(*file_, label_, options.queue_depth, layout_, sums_),
      compactor_(*file_, label_, kCompactionDepth, layout_, sums_) {}

template <class Function>
void SsdRecords::keep_error(Function function) {
  try {
    function();
  } catch (const std::exception& error) {
    std::lock_guard lock(state_);
    if (error_.empty()) error_ = error.what();
    throw;
  }
}

void SsdRecords::throw_kept_error() {
  if (!error_.empty()) throw run_error("{}", error_);
}

class SsdRecords::Read final : public RecordRead {
 public:
  Read(SsdRecords& records, View<const int64_t> rows, std::byte* out, uint8_t* written)
      : records_(records) {
    const auto start = Clock::now();
    std::vector<Wanted> wanted = records.look_up(rows, out, written, number_);
    try {
      records.keep_error([&] {
        read_ = std::make_unique<RecordReader::Read>(
            records.reader_, std::move(wanted),
            [out, bytes = records.layout_.record_bytes](uint32_t i, const std::byte* record) {
              std::memcpy(out + i * bytes, record, static_cast<size_t>(bytes));
            });
      });
    } catch (...) {
      records.end_read(number_);
      throw;
    }
    const int64_t found =
        std::count_if(written, written + rows.size(), [](uint8_t w) { return w; });
    count(found, 0, start);
  }
  ~Read() override {
    read_.reset();
    records_.end_read(number_);
  }

  void finish() override {
    const auto start = Clock::now();
    const int64_t bytes_before = records_.reader_.channel().bytes_read();
    records_.keep_error([&] { read_->finish(); });
    records_.end_read(number_);
    count(0, records_.reader_.channel().bytes_read() - bytes_before, start);
  }

 private:
  void count(int64_t rows, int64_t bytes, Clock::time_point start) {
    std::lock_guard lock(records_.state_);
    TierTraffic::Direction& traffic = records_.traffic_.read;
    traffic.rows += rows;
    traffic.bytes += bytes;
    traffic.seconds += std::chrono::duration<double>(Clock::now() - start).count();
  }

  SsdRecords& records_;
  uint64_t number_ = 0;
  std::unique_ptr<RecordReader::Read> read_;
};

std::unique_ptr<RecordRead> SsdRecords::start_read(View<const int64_t> rows, std::byte* out,
                                                   uint8_t* written) {
  return std::make_unique<Read>(*this, rows, out, written);
}

std::vector<Wanted> SsdRecords::look_up(View<const int64_t> rows, std::byte* out, uint8_t* written,
                                        uint64_t& read) {
  std::vector<Wanted> wanted;
  std::lock_guard lock(state_);
  throw_kept_error();
  for (size_t i = 0; i < rows.size(); ++i) {
    // Rows are far apart in memory.
    if (i + kPlacesAhead < rows.size()) __builtin_prefetch(&places_[rows[i + kPlacesAhead]]);
    const uint32_t entry = places_[rows[i]];
    written[i] = entry != 0;
    if (entry == 0) continue;
    const uint32_t place = entry - 1;
    if (open_.holds(place)) {
      std::memcpy(out + static_cast<int64_t>(i) * layout_.record_bytes, open_.record(place),
                  static_cast<size_t>(layout_.record_bytes));
    } else {
      wanted.push_back({place, static_cast<uint32_t>(i)});
    }
  }
  read = ++reads_;
  under_way_.insert(read);
  return wanted;
}

void SsdRecords::end_read(uint64_t read) {
  {
    std::lock_guard lock(state_);
    under_way_.erase(read);
  }
  read_ended_.notify_one();
}

template <class Work>
void SsdRecords::count_write(int64_t rows, const Work& work) {
  const auto start = Clock::now();
  BlockChannel& channel = compactor_.channel();
  const int64_t read_before = channel.bytes_read(), written_before = channel.bytes_written();
  keep_error(work);
  std::lock_guard lock(state_);
  traffic_.written.rows += rows;
  traffic_.written.bytes += channel.bytes_written() - written_before;
  traffic_.written.seconds += std::chrono::duration<double>(Clock::now() - start).count();
  traffic_.read.bytes += channel.bytes_read() - read_before;
}

void SsdRecords::write(View<const int64_t> rows, const std::byte* records) {
  std::lock_guard one_write(writing_);
  count_write(std::ssize(rows), [&] { add(rows, records); });
}

void SsdRecords::add(View<const int64_t> rows, const std::byte* records) {
  for (size_t i = 0; i < rows.size();) {
    if (open_.full()) {
      if (open_.exists()) write_open_segment();
      open_next_segment();
    }
    std::lock_guard lock(state_);
    throw_kept_error();
    for (; i < rows.size() && !open_.full(); ++i) {
      append(rows[i], records + static_cast<int64_t>(i) * layout_.record_bytes);
    }
  }
}

void SsdRecords::append(int64_t row, const std::byte* record) {
  uint32_t& entry = places_[row];
  if (entry != 0) {
    const uint32_t place = entry - 1;
    if (open_.holds(place)) {
      std::memcpy(open_.record(place), record, static_cast<size_t>(layout_.record_bytes));
      return;
    }
    segments_.drop_record(layout_.segment_of(place));
  }
  segments_.add_record(open_.segment());
  entry = static_cast<uint32_t>(open_.add(row, record)) + 1;
}

// Reads meanwhile take records of this segment from memory. Nobody else changes it.
void SsdRecords::write_open_segment() {
  const int64_t first = open_.segment() * layout_.segment_blocks;
  sums_.set(first, open_.bytes());
  compactor_.channel().write(first, open_.bytes());
}

void SsdRecords::open_next_segment() {
  const int64_t next = take_free_segment();
  bool may_grow;
  {
    std::lock_guard lock(state_);
    if (open_.exists()) segments_.seal(open_.segment(), open_.ordered());
    open_.begin(next);
    if (segments_.has_free()) return;
    may_grow = segments_.size() < layout_.segments_for(segments_.live());
  }
  may_grow ? grow() : compact();
}

int64_t SsdRecords::take_free_segment() {
  std::unique_lock lock(state_);
  for (;;) {
    if (const auto segment = segments_.take_free(oldest_read())) return *segment;
    const int64_t most = layout_.segments_for(segments_.live()) + SegmentTable::kSlack;
    if (segments_.size() < most) {
      lock.unlock();
      grow();
      lock.lock();
    } else {
      DLRM_CHECK(!under_way_.empty());
      read_ended_.wait(lock);
    }
  }
}

void SsdRecords::grow() {
  const int64_t bytes = (segments_.size() + 1) * layout_.segment_bytes();
  if (const int error = file_->resize(bytes); error != 0) {
    throw run_error(
        "{}: cannot lengthen the file to {} bytes: {} (errno {}); all rows written would take {}; "
        "free space there, or set memory.cached.directory to a larger disk",
        label_, bytes, std::strerror(error), error,
        layout_.most_segments * layout_.segment_bytes());
  }
  std::lock_guard lock(state_);
  segments_.grow();
}

// The open segment is new, and the emptiest one has at most two thirds of its records live, because
// the file is as long as all live records allow. So they fit.
void SsdRecords::compact() {
  int64_t segment;
  bool empty;
  {
    std::lock_guard lock(state_);
    segment = segments_.emptiest();
    empty = segments_.live(segment) == 0;
  }
  if (!empty) {
    std::vector<Wanted> live;
    list_live(segment, live);
    RecordReader::Read read(compactor_, std::move(live),
                            [&](uint32_t row, const std::byte* record) {
                              std::lock_guard lock(state_);
                              DLRM_CHECK(!open_.full());
                              append(row, record);
                            });
    read.finish();
  }
  std::lock_guard lock(state_);
  DLRM_CHECK(!open_.full());
  segments_.free(segment, under_way_.empty() ? 0 : reads_);
}

void SsdRecords::list_live(int64_t segment, std::vector<Wanted>& live) {
  std::vector<uint32_t> rows;
  compactor_.read_rows(segment, rows);
  std::lock_guard lock(state_);
  auto place = static_cast<uint32_t>(segment * layout_.segment_records);
  for (const uint32_t row : rows) {
    if (places_[row] == place + 1) live.push_back({place, row});
    ++place;
  }
}

// A segment in which the records of two sorts meet still counts as ordered. So this ends.
void SsdRecords::arrange() {
  std::lock_guard one_write(writing_);
  count_write(0, [&] {
    while (true) {
      std::unique_lock lock(state_);
      throw_kept_error();
      const std::vector<int64_t> segments = segments_.unordered(segments_sorted_);
      lock.unlock();
      if (segments.empty()) return;
      sort(segments);
    }
  });
}

void SsdRecords::sort(const std::vector<int64_t>& segments) {
  // The plan counts this memory.
  int64_t count = 0;
  {
    std::lock_guard lock(state_);
    for (const int64_t segment : segments) count += segments_.live(segment);
  }
  std::vector<Wanted> live;
  live.reserve(static_cast<size_t>(count));
  for (const int64_t segment : segments) list_live(segment, live);
  std::sort(live.begin(), live.end(),
            [](const Wanted& a, const Wanted& b) { return a.tag < b.tag; });
  std::vector<int64_t> rows;
  rows.reserve(live.size());
  for (size_t i = 0; i < live.size(); ++i) {
    rows.push_back(live[i].tag);
    live[i].tag = static_cast<uint32_t>(i);
  }
  const auto bytes = static_cast<size_t>(layout_.record_bytes);
  std::vector<std::byte> records(live.size() * bytes);
  const int64_t read_before = reader_.channel().bytes_read();
  RecordReader::Read(reader_, std::move(live), [&](uint32_t i, const std::byte* record) {
    std::memcpy(records.data() + i * bytes, record, bytes);
  }).finish();
  {
    std::lock_guard lock(state_);
    traffic_.read.bytes += reader_.channel().bytes_read() - read_before;
    for (const int64_t row : rows) {
      segments_.drop_record(layout_.segment_of(places_[row] - 1));
      places_[row] = 0;
    }
    for (const int64_t segment : segments) {
      segments_.free(segment, under_way_.empty() ? 0 : reads_);
    }
  }
  add(rows, records.data());
}

void SsdRecords::clear() {
  std::scoped_lock lock(writing_, state_);
  throw_kept_error();
  places_.clear();
  segments_.clear();
  open_.clear();
  if (const int error = file_->resize(0); error != 0) {
    throw run_error("{}: cannot empty the file: {} (errno {})", label_, std::strerror(error),
                    error);
  }
}

TierTraffic SsdRecords::traffic() const {
  std::lock_guard lock(state_);
  return traffic_;
}

std::unique_ptr<RecordStore> make_ssd_records(int64_t rows, int64_t record_bytes,
                                              const SsdRecordsOptions& options) {
  return std::make_unique<SsdRecords>(rows, record_bytes, options, open_block_file(options));
}

}  // namespace dlrm
