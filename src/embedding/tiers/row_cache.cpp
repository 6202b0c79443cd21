#include "row_cache.h"

#include <algorithm>
#include <cstring>

#include "dlrm/plan/plan.h"

namespace dlrm {

RowCache::RowCache(RowTools& tools, MemoryKind kind, std::vector<RowShape> shards, int64_t slots,
                   std::unique_ptr<SlotChoice> choice,
                   const std::function<std::unique_ptr<RecordStore>(int64_t)>& make_store)
    : map_(shards.front().table.rows, slots, std::move(choice)), shapes_(std::move(shards)) {
  for (const RowShape& shape : shapes_) allocate(tools, kind, shape);
  store_ = make_store(layout_.bytes());
}

void RowCache::allocate(RowTools& tools, MemoryKind kind, const RowShape& shape) {
  const auto values = [&](int64_t stride, DType type, const char* what) {
    const size_t bytes = static_cast<size_t>(map_.slots() * stride) * size_of(type);
    memory_.emplace_back(tools.context.device, bytes, what, kind);
    return memory_.back().data();
  };
  RowTable table = shape.table;
  table.rows = map_.slots();
  table.row_of = map_.row_of().data();
  table.on_host = kind == MemoryKind::kHost;
  table.stride = row_stride(table.width, table.type);
  table.weights = values(table.stride, table.type, "embedding rows");
  const OptimizerTraits& traits = traits_of(shape.optimizer.type);
  if (traits.state_count() > 0) {
    table.state_stride = traits.rowwise() ? 1 : row_stride(table.width, DType::kFloat32);
    float* states[2] = {};
    for (int i = 0; i < traits.state_count(); ++i) {
      states[i] = static_cast<float*>(
          values(table.state_stride, DType::kFloat32, "embedding optimizer state"));
    }
    table.state1 = states[0];
    table.state2 = states[1];
  }
  tables_.push_back(table);
  layout_.add(shape, table);
}

std::shared_ptr<WriteBack> RowCache::evict(View<const SlotChange> changes) {
  auto evicted = std::make_shared<WriteBack>();
  for (const SlotChange& change : changes) {
    if (change.evicted >= 0 && change.dirty) evicted->rows.push_back(change.evicted);
  }
  if (evicted->rows.empty()) return nullptr;
  const auto bytes = static_cast<size_t>(layout_.bytes());
  evicted->records.resize(evicted->rows.size() * bytes);
  std::byte* record = evicted->records.data();
  for (const SlotChange& change : changes) {
    if (change.evicted < 0 || !change.dirty) continue;
    layout_.gather(change.slot, record);
    record += bytes;
  }
  const std::lock_guard lock(mutex_);
  for (size_t i = 0; i < evicted->rows.size(); ++i) {
    evicted_[evicted->rows[i]] = evicted->records.data() + i * bytes;
  }
  return evicted;
}

void RowCache::start_fetch(View<const SlotChange> changes) {
  rows_.clear();
  slots_.clear();
  {
    const std::lock_guard lock(mutex_);
    for (const SlotChange& change : changes) {
      const auto found = evicted_.find(change.row);
      if (found != evicted_.end()) {
        layout_.scatter(found->second, change.slot);
      } else {
        rows_.push_back(change.row);
        slots_.push_back(change.slot);
      }
    }
  }
  start_read(rows_);
}

void RowCache::finish_fetch() {
  finish_read(rows_);
  for (size_t i = 0; i < slots_.size(); ++i) {
    layout_.scatter(records_.data() + i * static_cast<size_t>(layout_.bytes()), slots_[i]);
  }
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
  for (size_t i = 0; i < rows.size(); ++i) {
    if (!written_[i]) layout_.initial(rows[i], records_.data() + i * bytes);
  }
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
      const std::vector<int64_t>& stored = read_stored(begin, end);
      size_t next = 0;
      for (int64_t row = begin; row < end; ++row) {
        const bool is_stored = next < stored.size() && stored[next] == row;
        const std::byte* from =
            is_stored ? record(next++) + field.at : field.slot(cache_.map_.slot_of(row));
        field.read(from, out + (row - first) * field.columns);
      }
    });
  }

  void write(RowArray array, int64_t first, int64_t count, const float* in) override {
    const SlotRecords::Field& field = cache_.layout_.field(shard_, array);
    each_chunk(first, count, [&](int64_t begin, int64_t end) {
      const std::vector<int64_t>& stored = read_stored(begin, end);
      size_t next = 0;
      for (int64_t row = begin; row < end; ++row) {
        const float* values = in + (row - first) * field.columns;
        if (next < stored.size() && stored[next] == row) {
          field.write(values, record(next++) + field.at);
        } else {
          const int64_t slot = cache_.map_.slot_of(row);
          field.write(values, field.slot(slot));
          cache_.map_.mark_dirty(slot);
        }
      }
      write_back(stored);
    });
  }

 private:
  /// Puts the rows of records_ into empty slots, and the rest into the store.
  void write_back(const std::vector<int64_t>& rows) {
    std::vector<int64_t> others;
    for (size_t i = 0; i < rows.size(); ++i) {
      const int64_t slot = cache_.map_.fill(rows[i]);
      if (slot >= 0) {
        cache_.layout_.scatter(record(i), slot);
        cache_.map_.mark_dirty(slot);
        continue;
      }
      const auto bytes = static_cast<size_t>(cache_.record_bytes());
      std::memmove(record(others.size()), record(i), bytes);
      others.push_back(rows[i]);
    }
    if (!others.empty()) cache_.store_->write(others, record(0));
  }
  /// Calls work(begin, end) for parts of [first, first + count) whose records fill a buffer of
  /// bounded size.
  template <class Work>
  void each_chunk(int64_t first, int64_t count, const Work& work) {
    settle_();
    constexpr int64_t kBufferBytes = 16 << 20;
    const int64_t rows = std::max<int64_t>(kBufferBytes / cache_.record_bytes(), 1);
    for (int64_t begin = first; begin < first + count; begin += rows) {
      work(begin, std::min(begin + rows, first + count));
    }
  }
  /// Reads the records of the rows [begin, end) that are in no slot. Returns these rows.
  const std::vector<int64_t>& read_stored(int64_t begin, int64_t end) {
    cache_.rows_.clear();
    for (int64_t row = begin; row < end; ++row) {
      if (cache_.map_.slot_of(row) < 0) cache_.rows_.push_back(row);
    }
    cache_.read_or_draw(cache_.rows_);
    return cache_.rows_;
  }
  std::byte* record(size_t i) const {
    return cache_.records_.data() + i * static_cast<size_t>(cache_.record_bytes());
  }

  RowCache& cache_;
  const size_t shard_;
  const std::function<void()> settle_;
};

std::unique_ptr<RowStore> RowCache::rows_of(size_t shard, std::function<void()> settle) {
  return std::make_unique<Rows>(*this, shard, std::move(settle));
}

}  // namespace dlrm
