#include "row_cache.h"

#include <algorithm>
#include <cstring>

#include "dlrm/plan/plan.h"

#include "embedding/records/record_parts.h"

namespace dlrm {

RowCache::RowCache(
    RowTools& tools, RecordStream* stream, std::vector<RowShape> shards, int64_t slots,
    std::unique_ptr<SlotChoice> choice,
    const std::function<std::unique_ptr<RecordStore>(const SlotRecords&)>& make_store)
    : map_(shards.front().table.rows, slots, std::move(choice)),
      stream_(stream),
      shapes_(std::move(shards)) {
  for (const RowShape& shape : shapes_) allocate(tools.context.device, shape);
  if (stream_) stream_->reserve(layout_, slots);
  store_ = make_store(layout_);
  kernel_records_ = store_->for_kernels();
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
  table.stride = table_stride(table.width, table.type);
  table.weights = elements(table.stride, table.type, "embedding rows");
  const OptimizerTraits& traits = traits_of(shape.optimizer.type);
  if (traits.state_count() > 0) {
    table.state_stride = traits.rowwise() ? 1 : table_stride(table.width, DType::kFloat32);
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
  if (kernel_records_) {
    kernel_records_->writes(evicted->rows);
    stream_->from_slots(layout_, *kernel_records_, leaving_, evicted->rows);
    return nullptr;
  }
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
  kernel_records_ ? fetch_by_kernels(*fetch) : start_read(*fetch);
  return fetch;
}

// The stream makes copies in the order in which they are queued. So a row that left for the store
// before is read after that.
void RowCache::fetch_by_kernels(const Fetch& fetch) {
  kernel_records_->reads(fetch.rows, [this](int64_t row, std::byte* record) {
    std::vector<float> values;
    layout_.initial(row, values, record);
  });
  stream_->to_slots(layout_, *kernel_records_, fetch.slots, fetch.rows);
}

void RowCache::finish_fetch(std::unique_ptr<Fetch> fetch) {
  if (!kernel_records_) {
    scatter(fetch->forwarded.data(), fetch->forwarded_slots, fetch->forwarded_rows);
    finish_read(*fetch);
    scatter(fetch->records.data(), fetch->slots, fetch->rows);
  }
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

}  // namespace dlrm
