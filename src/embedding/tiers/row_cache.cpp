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
  leaving_.clear();
  for (const SlotChange& change : changes) {
    if (change.evicted < 0 || !change.dirty) continue;
    evicted->rows.push_back(change.evicted);
    leaving_.push_back(change.slot);
  }
  if (evicted->rows.empty()) return nullptr;
  const auto bytes = static_cast<size_t>(layout_.bytes());
  evicted->records.resize(evicted->rows.size() * bytes);
  gather(leaving_, evicted->records.data());
  const std::lock_guard lock(mutex_);
  for (size_t i = 0; i < evicted->rows.size(); ++i) {
    evicted_[evicted->rows[i]] = evicted->records.data() + i * bytes;
  }
  return evicted;
}

std::unique_ptr<RowCache::Fetch> RowCache::start_fetch(View<const SlotChange> changes) {
  auto fetch = std::make_unique<Fetch>();
  if (!spare_.empty()) {
    fetch = std::move(spare_.back());
    spare_.pop_back();
  }
  for (std::vector<int64_t>* list :
       {&fetch->rows, &fetch->slots, &fetch->forwarded_rows, &fetch->forwarded_slots}) {
    list->clear();
  }
  fetch->forwarded.clear();
  {
    const std::lock_guard lock(mutex_);
    for (const SlotChange& change : changes) {
      const auto found = evicted_.find(change.row);
      if (found != evicted_.end()) {
        fetch->forwarded.insert(fetch->forwarded.end(), found->second,
                                found->second + layout_.bytes());
        fetch->forwarded_rows.push_back(change.row);
        fetch->forwarded_slots.push_back(change.slot);
      } else {
        fetch->rows.push_back(change.row);
        fetch->slots.push_back(change.slot);
      }
    }
  }
  start_read(*fetch);
  return fetch;
}

void RowCache::finish_fetch(std::unique_ptr<Fetch> fetch) {
  scatter(fetch->forwarded.data(), fetch->forwarded_slots, fetch->forwarded_rows);
  finish_read(*fetch);
  scatter(fetch->records.data(), fetch->slots, fetch->rows);
  spare_.push_back(std::move(fetch));
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

void RowCache::start_read(Fetch& fetch) {
  const size_t bytes = fetch.rows.size() * static_cast<size_t>(layout_.bytes());
  if (fetch.records.size() < bytes) fetch.records.resize(bytes);
  fetch.written.resize(fetch.rows.size());
  fetch.read = store_->start_read(fetch.rows, fetch.records.data(), fetch.written.data());
}

void RowCache::finish_read(Fetch& fetch) {
  fetch.read->finish();
  fetch.read.reset();
  const auto bytes = static_cast<size_t>(layout_.bytes());
  const size_t count = fetch.rows.size();
  for_record_parts(count, stream_ ? stream_->threads() : 1, [&](size_t begin, size_t end) {
    std::vector<float> values;
    for (size_t i = begin; i < end; ++i) {
      if (!fetch.written[i]) {
        layout_.initial(fetch.rows[i], values, fetch.records.data() + i * bytes);
      }
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
      for (const int64_t slot : held_slots_) cache_.map_.mark_dirty(slot);
      cache_.scatter(held_.data(), held_slots_, held_rows_);
      write_back();
    });
    if (cache_.stream_) cache_.stream_->finish();
  }

 private:
  /// Puts the rows of stored_ into empty slots, and the rest into the store.
  void write_back() {
    const auto bytes = static_cast<size_t>(cache_.record_bytes());
    std::vector<int64_t> others, filled, slots;
    std::vector<std::byte> records;
    for (size_t i = 0; i < stored_.rows.size(); ++i) {
      const int64_t row = stored_.rows[i], slot = cache_.map_.fill(row);
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
    held_ = {};
    stored_ = {};
  }
  /// Reads the records of the rows [begin, end): of those in slots to held_, of the others to
  /// stored_.
  void find(int64_t begin, int64_t end) {
    stored_.rows.clear();
    held_slots_.clear();
    held_rows_.clear();
    for (int64_t row = begin; row < end; ++row) {
      const int64_t slot = cache_.map_.slot_of(row);
      if (slot < 0) {
        stored_.rows.push_back(row);
        continue;
      }
      held_slots_.push_back(slot);
      held_rows_.push_back(row);
    }
    held_.resize(held_rows_.size() * static_cast<size_t>(cache_.record_bytes()));
    cache_.gather(held_slots_, held_.data());
    cache_.start_read(stored_);
    cache_.finish_read(stored_);
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
  std::byte* record(size_t i) {
    return stored_.records.data() + i * static_cast<size_t>(cache_.record_bytes());
  }

  RowCache& cache_;
  const size_t shard_;
  const std::function<void()> settle_;
  std::vector<int64_t> held_rows_, held_slots_;  ///< of the rows in slots
  std::vector<std::byte> held_;
  Fetch stored_;  ///< of the others
};

std::unique_ptr<RowStore> RowCache::rows_of(size_t shard, std::function<void()> settle) {
  return std::make_unique<Rows>(*this, shard, std::move(settle));
}

}  // namespace dlrm
