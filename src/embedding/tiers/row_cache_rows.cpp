#include <algorithm>
#include <cstring>

#include "dlrm/plan/cache_size.h"

#include "row_cache.h"

namespace dlrm {

/// The records of consecutive rows, wherever they are. Nothing may move meanwhile.
class RowCache::Chunk {
 public:
  explicit Chunk(RowCache& cache) : cache_(cache) {}

  int64_t most_rows() const { return records_at_a_time(cache_.rows(), cache_.record_bytes()); }
  /// The queued work of the steps is done before rows leave their slots.
  void begin() {
    if (cache_.stream_) cache_.stream_->begin(cache_.stream_->released().get());
    const auto most = static_cast<size_t>(most_rows());
    for (std::vector<int64_t>* list : {&stored_.rows, &held_slots_, &held_rows_}) {
      list->reserve(most);
    }
  }
  /// Reads the records of some rows: of those in slots to held_, of the others to stored_.
  void read(Range rows) {
    rows_ = rows;
    stored_.rows.clear();
    held_slots_.clear();
    held_rows_.clear();
    for (int64_t row = rows.begin; row < rows.end; ++row) {
      const int64_t slot = cache_.map_.slot_of(row);
      if (slot < 0) {
        stored_.rows.push_back(row);
        continue;
      }
      held_slots_.push_back(slot);
      held_rows_.push_back(row);
    }
    held_.resize(held_rows_.size() * bytes());
    cache_.gather(held_slots_, held_.data());
    cache_.start_read(stored_);
    cache_.finish_read(stored_);
  }
  /// Calls visit(row, record) for the rows of the last read().
  template <class Visit>
  void each_record(const Visit& visit) {
    size_t held = 0, stored = 0;
    for (int64_t row = rows_.begin; row < rows_.end; ++row) {
      const bool is_held = held < held_rows_.size() && held_rows_[held] == row;
      visit(row, is_held ? held_.data() + bytes() * held++ : record(stored++));
    }
  }
  void copy_field(const SlotRecords::Field& field, float* out) {
    each_record([&](int64_t row, const std::byte* record) {
      field.read(record + field.at, out + (row - rows_.begin) * field.columns);
    });
  }
  void set_field(const SlotRecords::Field& field, const float* in) {
    each_record([&](int64_t row, std::byte* record) {
      field.write(in + (row - rows_.begin) * field.columns, record + field.at);
    });
  }
  /// Puts changed records back: to their slots, to empty slots, and the rest to the store.
  void write() {
    for (const int64_t slot : held_slots_) cache_.map_.mark_dirty(slot);
    cache_.scatter(held_.data(), held_slots_, held_rows_);
    std::vector<int64_t> others, filled, slots;
    std::vector<std::byte>& records = held_;  // which are in their slots
    records.clear();
    records.reserve(stored_.rows.size() * bytes());
    for (size_t i = 0; i < stored_.rows.size(); ++i) {
      const int64_t row = stored_.rows[i], slot = cache_.map_.fill(row);
      if (slot >= 0) {
        records.insert(records.end(), record(i), record(i + 1));
        filled.push_back(row);
        slots.push_back(slot);
        cache_.map_.mark_dirty(slot);
        continue;
      }
      std::memmove(record(others.size()), record(i), bytes());
      others.push_back(row);
    }
    cache_.scatter(records.data(), slots, filled);
    if (!others.empty()) cache_.store_->write(others, record(0));
  }
  /// Waits for the copies to slots. Gives the memory back.
  void end() {
    if (cache_.stream_) cache_.stream_->finish();
    held_rows_ = {};
    held_slots_ = {};
    held_ = {};
    stored_ = {};
  }

 private:
  size_t bytes() const { return static_cast<size_t>(cache_.record_bytes()); }
  std::byte* record(size_t i) { return stored_.records.data() + i * bytes(); }

  RowCache& cache_;
  Range rows_;
  std::vector<int64_t> held_rows_, held_slots_;  ///< of the rows in slots
  std::vector<std::byte> held_;
  Fetch stored_;  ///< of the others
};

/// The rows of all column shards. The parts are the fields of a record.
class RowCache::AllRows final : public SharedRows {
 public:
  AllRows(RowCache& cache, std::function<void()> settle)
      : cache_(cache), settle_(std::move(settle)), chunk_(cache) {}

  void begin() override {
    settle_();
    cache_.store_->arrange();
    chunk_.begin();
    at_ = 0;
    changed_ = false;
  }

  Range next() override {
    if (changed_) chunk_.write();
    changed_ = false;
    const Range rows{at_, std::min(at_ + chunk_.most_rows(), cache_.rows())};
    at_ = rows.end;
    rows.size() > 0 ? chunk_.read(rows) : chunk_.end();
    return rows;
  }

  void read(size_t part, float* out) override {
    chunk_.copy_field(cache_.layout_.fields()[part], out);
  }

  void write(size_t part, const float* in) override {
    chunk_.set_field(cache_.layout_.fields()[part], in);
    changed_ = true;
  }

 private:
  RowCache& cache_;
  const std::function<void()> settle_;
  Chunk chunk_;
  int64_t at_ = 0;  ///< rows passed
  bool changed_ = false;
};

/// One column shard of the cache.
class RowCache::Rows final : public RowStore {
 public:
  Rows(RowCache& cache, size_t shard, std::function<void()> settle)
      : cache_(cache), shard_(shard), settle_(std::move(settle)), chunk_(cache) {}

  RowTable table() const override { return cache_.tables_[shard_]; }

  void initialise() override {
    if (shard_ > 0) return;  // the first shard of a slice did it for all
    settle_();
    cache_.map_.clear();
    cache_.store_->clear();
  }

  void read(RowArray array, int64_t first, int64_t count, float* out) override {
    const SlotRecords::Field& field = cache_.layout_.field(shard_, array);
    each_chunk({first, first + count}, [&](Range rows) {
      chunk_.copy_field(field, out + (rows.begin - first) * field.columns);
    });
  }

  void write(RowArray array, int64_t first, int64_t count, const float* in) override {
    const SlotRecords::Field& field = cache_.layout_.field(shard_, array);
    each_chunk({first, first + count}, [&](Range rows) {
      chunk_.set_field(field, in + (rows.begin - first) * field.columns);
      chunk_.write();
    });
  }

  SharedPart shared(RowArray array) override {
    const SlotRecords::Field& field = cache_.layout_.field(shard_, array);
    return {cache_.all_rows_.get(), static_cast<size_t>(&field - cache_.layout_.fields().data())};
  }

 private:
  /// Calls work(part) for parts of `rows` whose records were read.
  template <class Work>
  void each_chunk(Range rows, const Work& work) {
    settle_();
    chunk_.begin();
    for (int64_t begin = rows.begin; begin < rows.end; begin += chunk_.most_rows()) {
      const Range part{begin, std::min(begin + chunk_.most_rows(), rows.end)};
      chunk_.read(part);
      work(part);
    }
    chunk_.end();
  }

  RowCache& cache_;
  const size_t shard_;
  const std::function<void()> settle_;
  Chunk chunk_;
};

std::unique_ptr<RowStore> RowCache::rows_of(size_t shard, std::function<void()> settle) {
  if (!all_rows_) all_rows_ = std::make_unique<AllRows>(*this, settle);
  return std::make_unique<Rows>(*this, shard, std::move(settle));
}

}  // namespace dlrm
