#include "row_cache.h"

#include <algorithm>
#include <cstring>

#include "dlrm/plan/plan.h"

#include "record_parts.h"

namespace dlrm {

RowCache::RowCache(RowTools& tools, RecordStream* stream, std::vector<RowShape> shards,
                   int64_t slots, std::unique_ptr<SlotChoice> choice,
                   const std::function<std::unique_ptr<RecordStore>(int64_t)>& make_store)
    : map_(shards.front().table.rows, slots, std::move(choice)),
      stream_(stream),
      shapes_(std::move(shards)) {
  for (const RowShape& shape : shapes_) allocate(tools.context.device, shape);
  if (stream_) stream_->reserve(layout_, slots);
  store_ = make_store(layout_.bytes());
}

void RowCache::allocate(Device& device, const RowShape& shape) {
  const auto values = [&](int64_t bytes, const char* what) {
    memory_.emplace_back(device, static_cast<size_t>(map_.slots() * bytes), what);
    return memory_.back().data();
  };
  RowTable table = shape.table;
  table.rows = map_.slots();
  if (!stream_) {
    table.row_of = map_.row_of().data();
  } else if (table.type == DType::kBFloat16) {
    // The map may be ahead of the rows. Their numbers follow the rows to the device.
    if (!layout_.row_of()) {
      layout_.set_row_of(static_cast<int64_t*>(values(sizeof(int64_t), "rows of slots")));
    }
    table.row_of = layout_.row_of();
  }
  const auto elements = [&](int64_t stride, DType type, const char* what) {
    return values(stride * static_cast<int64_t>(size_of(type)), what);
  };
  table.stride = row_stride(table.width, table.type);
  table.weights = elements(table.stride, table.type, "embedding rows");
  const OptimizerTraits& traits = traits_of(shape.optimizer.type);
  if (traits.state_count() > 0) {
    table.state_stride = traits.rowwise() ? 1 : row_stride(table.width, DType::kFloat32);
    float* states[2] = {};
    for (int i = 0; i < traits.state_count(); ++i) {
      states[i] = static_cast<float*>(
          elements(table.state_stride, DType::kFloat32, "embedding optimizer state"));
    }
    table.state1 = states[0];
    table.state2 = states[1];
  }
  tables_.push_back(table);
  layout_.add(shape, table);
}

void RowCache::gather(View<const int64_t> slots, std::byte* records) const {
  if (stream_) return stream_->gather(layout_, slots, records);
  for (const int64_t slot : slots) {
    layout_.gather(slot, records);
    records += layout_.bytes();
  }
}

void RowCache::scatter(const std::byte* records, View<const int64_t> slots,
                       View<const int64_t> rows) const {
  if (stream_) return stream_->scatter(layout_, records, slots, rows);
  for (const int64_t slot : slots) {
    layout_.scatter(records, slot);
    records += layout_.bytes();
  }
}

std::shared_ptr<WriteBack> RowCache::evict(View<const SlotChange> changes) {
  auto evicted = std::make_shared<WriteBack>();
  slots_.clear();
  for (const SlotChange& change : changes) {
    if (change.evicted < 0 || !change.dirty) continue;
    evicted->rows.push_back(change.evicted);
    slots_.push_back(change.slot);
  }
  if (evicted->rows.empty()) return nullptr;
  const auto bytes = static_cast<size_t>(layout_.bytes());
  evicted->records.resize(evicted->rows.size() * bytes);
  gather(slots_, evicted->records.data());
  const std::lock_guard lock(mutex_);
  for (size_t i = 0; i < evicted->rows.size(); ++i) {
    evicted_[evicted->rows[i]] = evicted->records.data() + i * bytes;
  }
  return evicted;
}

void RowCache::start_fetch(View<const SlotChange> changes) {
  rows_.clear();
  slots_.clear();
  forwarded_rows_.clear();
  forwarded_slots_.clear();
  forwarded_.clear();
  {
    const std::lock_guard lock(mutex_);
    for (const SlotChange& change : changes) {
      const auto found = evicted_.find(change.row);
      if (found != evicted_.end()) {
        forwarded_.insert(forwarded_.end(), found->second, found->second + layout_.bytes());
        forwarded_rows_.push_back(change.row);
        forwarded_slots_.push_back(change.slot);
      } else {
        rows_.push_back(change.row);
        slots_.push_back(change.slot);
      }
    }
  }
  start_read(rows_);
}

void RowCache::finish_fetch() {
  scatter(forwarded_.data(), forwarded_slots_, forwarded_rows_);
  finish_read(rows_);
  scatter(records_.data(), slots_, rows_);
}

void RowCache::write(const WriteBack& evicted) {
  store_->write(evicted.rows, evicted.records.data());
  const auto bytes = static_cast<size_t>(layout_.bytes());
  const std::lock_guard lock(mutex_);
  for (size_t i = 0; i < evicted.rows.size(); ++i) {
    const auto found = evicted_.find(evicted.rows[i]);
    // A later eviction of the row may have replaced the record.
    if (found != evicted_.end() && found->second == evicted.records.data() + i * bytes) {
      evicted_.erase(found);
    }
  }
}

void RowCache::read_or_draw(View<const int64_t> rows) {
  start_read(rows);
  finish_read(rows);
}

void RowCache::start_read(View<const int64_t> rows) {
  const auto bytes = static_cast<size_t>(layout_.bytes());
  if (records_.size() < rows.size() * bytes) records_.resize(rows.size() * bytes);
  written_.resize(rows.size());
  store_->start_read(rows, records_.data(), written_.data());
}

void RowCache::finish_read(View<const int64_t> rows) {
  store_->finish_read();
  const auto bytes = static_cast<size_t>(layout_.bytes());
  for_record_parts(rows.size(), stream_ ? stream_->threads() : 1, [&](size_t begin, size_t end) {
    std::vector<float> values;
    for (size_t i = begin; i < end; ++i) {
      if (!written_[i]) layout_.initial(rows[i], values, records_.data() + i * bytes);
    }
  });
}

/// One column shard of the cache.
class RowCache::Rows final : public RowStore {
 public:
  Rows(RowCache& cache, size_t shard, std::function<void()> settle)
      : cache_(cache), shard_(shard), settle_(std::move(settle)) {}

  RowTable table() const override { return cache_.tables_[shard_]; }

  void initialise() override {
    if (shard_ > 0) return;  // the first shard of a slice did it for all
    settle_();
    cache_.map_.clear();
    cache_.store_->clear();
  }

  void read(RowArray array, int64_t first, int64_t count, float* out) override {
    const SlotRecords::Field& field = cache_.layout_.field(shard_, array);
    each_chunk(first, count, [&](int64_t begin, int64_t end) {
      find(begin, end);
      each_record(begin, end, [&](int64_t row, const std::byte* record) {
        field.read(record + field.at, out + (row - first) * field.columns);
      });
    });
  }

  void write(RowArray array, int64_t first, int64_t count, const float* in) override {
    const SlotRecords::Field& field = cache_.layout_.field(shard_, array);
    each_chunk(first, count, [&](int64_t begin, int64_t end) {
      find(begin, end);
      each_record(begin, end, [&](int64_t row, std::byte* record) {
        field.write(in + (row - first) * field.columns, record + field.at);
      });
      for (const int64_t slot : cache_.slots_) cache_.map_.mark_dirty(slot);
      cache_.scatter(held_.data(), cache_.slots_, held_rows_);
      write_back();
    });
    if (cache_.stream_) cache_.stream_->finish();
  }

 private:
  /// Puts the rows of records_ into empty slots, and the rest into the store.
  void write_back() {
    const auto bytes = static_cast<size_t>(cache_.record_bytes());
    std::vector<int64_t> others, filled, slots;
    std::vector<std::byte> records;
    for (size_t i = 0; i < cache_.rows_.size(); ++i) {
      const int64_t row = cache_.rows_[i], slot = cache_.map_.fill(row);
      if (slot >= 0) {
        records.insert(records.end(), record(i), record(i + 1));
        filled.push_back(row);
        slots.push_back(slot);
        cache_.map_.mark_dirty(slot);
        continue;
      }
      std::memmove(record(others.size()), record(i), bytes);
      others.push_back(row);
    }
    cache_.scatter(records.data(), slots, filled);
    if (!others.empty()) cache_.store_->write(others, record(0));
  }
  /// Calls work(begin, end) for parts of [first, first + count) whose records fill a buffer of
  /// bounded size.
  template <class Work>
  void each_chunk(int64_t first, int64_t count, const Work& work) {
    settle_();
    if (cache_.stream_) cache_.stream_->begin(cache_.stream_->released().get());
    constexpr int64_t kBufferBytes = 16 << 20;
    const int64_t rows = std::max<int64_t>(kBufferBytes / cache_.record_bytes(), 1);
    for (int64_t begin = first; begin < first + count; begin += rows) {
      work(begin, std::min(begin + rows, first + count));
    }
  }
  /// Reads the records of the rows [begin, end): of those in slots to held_, of the others to the
  /// cache's records_.
  void find(int64_t begin, int64_t end) {
    cache_.rows_.clear();
    cache_.slots_.clear();
    held_rows_.clear();
    for (int64_t row = begin; row < end; ++row) {
      const int64_t slot = cache_.map_.slot_of(row);
      if (slot < 0) {
        cache_.rows_.push_back(row);
        continue;
      }
      cache_.slots_.push_back(slot);
      held_rows_.push_back(row);
    }
    held_.resize(held_rows_.size() * static_cast<size_t>(cache_.record_bytes()));
    cache_.gather(cache_.slots_, held_.data());
    cache_.read_or_draw(cache_.rows_);
  }
  /// Calls visit(row, record) for the rows [begin, end) that find() has read.
  template <class Visit>
  void each_record(int64_t begin, int64_t end, const Visit& visit) {
    size_t held = 0, stored = 0;
    for (int64_t row = begin; row < end; ++row) {
      const bool is_held = held < held_rows_.size() && held_rows_[held] == row;
      const auto bytes = static_cast<size_t>(cache_.record_bytes());
      visit(row, is_held ? held_.data() + bytes * held++ : record(stored++));
    }
  }
  std::byte* record(size_t i) const {
    return cache_.records_.data() + i * static_cast<size_t>(cache_.record_bytes());
  }

  RowCache& cache_;
  const size_t shard_;
  const std::function<void()> settle_;
  std::vector<int64_t> held_rows_;  ///< in the slots slots_ of the cache
  std::vector<std::byte> held_;
};

std::unique_ptr<RowStore> RowCache::rows_of(size_t shard, std::function<void()> settle) {
  return std::make_unique<Rows>(*this, shard, std::move(settle));
}

}  // namespace dlrm
