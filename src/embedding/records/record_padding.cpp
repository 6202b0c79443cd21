#include "record_padding.h"

#include <cstring>

namespace dlrm {

RecordPadding::RecordPadding(const SlotRecords& records) {
  for (const SlotRecords::Field& field : records.fields()) {
    parts_.push_back({field.at, field.bytes(), bytes_, field.stride});
    bytes_ += aligned(field.stride);
  }
}

void RecordPadding::pack(const std::byte* record, std::byte* padded) const {
  for (const Part& part : parts_) {
    const auto bytes = static_cast<size_t>(part.bytes);
    std::memcpy(padded + part.at, record + part.from, bytes);
    std::memset(padded + part.at + bytes, 0, static_cast<size_t>(part.padded) - bytes);
  }
}

void RecordPadding::unpack(const std::byte* padded, std::byte* record) const {
  for (const Part& part : parts_) {
    std::memcpy(record + part.from, padded + part.at, static_cast<size_t>(part.bytes));
  }
}

}  // namespace dlrm
