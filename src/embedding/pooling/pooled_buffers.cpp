#include "pooled_buffers.h"

#include <algorithm>

namespace dlrm {
namespace {

/// Buffers are converted in rows of this many elements.
constexpr int64_t kConvertWidth = 1024;

int64_t padded(int64_t elements) {
  return (elements + kConvertWidth - 1) / kConvertWidth * kConvertWidth;
}

/// True if vectors are converted between the type in which they are computed and the wire's.
bool is_converted(DType wire) { return pooled_as(wire) != wire; }

Matrix values(char* data, DType type, Range range) {
  return {data + range.begin * static_cast<int64_t>(size_of(type)), type,
          range.size() / kConvertWidth, kConvertWidth};
}

int64_t elements(int64_t units, size_t unit, DType type) {
  return units * static_cast<int64_t>(unit) / static_cast<int64_t>(size_of(type));
}

}  // namespace

PooledBuffers::PooledBuffers(Device& shared, const EmbeddingLayout& layout, int rank,
                             WireConfig wire, int most_parts)
    : layout_(layout),
      rank_(rank),
      wire_(wire),
      most_parts_(most_parts),
      parts_(returned_shards(layout, false), most_parts),
      gradients_(layout, rank, [](int, const PooledBlock&) { return 1; }),
      pooled_(shared, 0, "pooled vectors"),
      owner_wire_(shared, 0, "pooled vectors on their way"),
      requester_wire_(shared, 0, "pooled vectors on their way") {
  place_parts();
}

void PooledBuffers::set_type(DType vectors) {
  rounds_ = wire_.forward == DType::kFloat32 && vectors == DType::kBFloat16;
  parts_ = ReturnedParts(returned_shards(layout_, rounds_), most_parts_);
  place_parts();
}

void PooledBuffers::place_parts() {
  vectors_.clear();
  for (int part = 0; part < parts_.count(); ++part) {
    vectors_.emplace_back(layout_, rank_, [&](int owner, const PooledBlock& block) {
      if (parts_.part_of(owner, block.shard) != part) return 0;
      return static_cast<int>(size_of(type_of(owner, block)) / unit_bytes());
    });
  }
}

void PooledBuffers::begin(const RoutedBatch& batch) {
  Sizes needed, room;
  for (PooledLayout& part : vectors_) {
    part.set(batch, needed.vectors);
    needed.vectors = {padded(part.end().owned), padded(part.end().requested)};
    room.vectors.owned += padded(part.room().owned);
    room.vectors.requested += padded(part.room().requested);
  }
  gradients_.set(batch, {});
  needed.gradients = {padded(gradients_.end().owned), gradients_.end().requested};
  room.gradients = {padded(gradients_.room().owned), gradients_.room().requested};
  reserve(needed, room);
}

/// Reserves `room` where a buffer is shorter than `needed`.
void PooledBuffers::reserve(const Sizes& needed, const Sizes& room) {
  const auto grow = [&](Array<char>& buffer, int64_t BufferPositions::*units, size_t vector,
                        size_t gradient) {
    const auto bytes = [&](const Sizes& sizes) {
      return std::max(static_cast<size_t>(sizes.vectors.*units) * vector,
                      static_cast<size_t>(sizes.gradients.*units) * gradient);
    };
    if (bytes(needed) > buffer.size()) buffer.reserve(bytes(room));
  };
  const auto converted = [](DType wire) { return is_converted(wire) ? size_of(wire) : 0; };
  grow(pooled_, &BufferPositions::owned, unit_bytes(), size_of(pooled_as(wire_.backward)));
  grow(owner_wire_, &BufferPositions::owned, converted(wire_.forward), converted(wire_.backward));
  grow(requester_wire_, &BufferPositions::requested, wire_unit_bytes(), size_of(wire_.backward));
}

PooledBuffers::Place PooledBuffers::owned(const PooledLayout& places, size_t block, int source,
                                          size_t unit, DType type) const {
  return {pooled_.data() + places.owned_at(block, source) * static_cast<int64_t>(unit), type,
          elements(places.stride_of_mine(block), unit, type)};
}

PooledBuffers::Place PooledBuffers::owned_vectors(size_t block, int source) const {
  const PooledBlock& place = layout_.owner(rank_).returned[block];
  return owned(part_of_block(rank_, place), block, source, unit_bytes(), type_of(rank_, place));
}

PooledBuffers::Place PooledBuffers::owned_gradients(size_t block, int source) const {
  const DType type = pooled_as(wire_.backward);
  return owned(gradients_, block, source, size_of(type), type);
}

PooledBuffers::Place PooledBuffers::requested(const PooledLayout& places, int owner, size_t number,
                                              size_t unit, DType type, bool converted) const {
  const int64_t stride = elements(places.stride(owner, number), unit, type);
  const auto bytes = static_cast<int64_t>(unit);
  if (owner != rank_) {
    return {requester_wire_.data() + places.requested_at(owner, number) * bytes, type, stride};
  }
  char* const owned = converted ? owner_wire_.data() : pooled_.data();
  return {owned + places.own_at(number) * bytes, type, stride};
}

PooledBuffers::Place PooledBuffers::received_vectors(int owner, size_t number,
                                                     const PooledBlock& block) const {
  return requested(part_of_block(owner, block), owner, number, wire_unit_bytes(),
                   rounds_ ? type_of(owner, block) : wire_.forward, is_converted(wire_.forward));
}

PooledBuffers::Place PooledBuffers::sent_gradients(int owner, size_t number) const {
  return requested(gradients_, owner, number, size_of(wire_.backward), wire_.backward,
                   is_converted(wire_.backward));
}

PooledBuffers::Messages PooledBuffers::send_vectors(size_t part, Ops& ops) {
  const char* send = pooled_.data();
  if (is_converted(wire_.forward)) {
    send = owner_wire_.data();
    const Range owned = {part == 0 ? 0 : padded(vectors_[part - 1].end().owned),
                         padded(vectors_[part].end().owned)};
    ops.convert(values(pooled_.data(), pooled_as(wire_.forward), owned),
                values(owner_wire_.data(), wire_.forward, owned));
  }
  return {send, requester_wire_.data(), vectors_[part].to_requesters(wire_unit_bytes())};
}

PooledBuffers::Messages PooledBuffers::send_gradients() {
  const Array<char>& receive = is_converted(wire_.backward) ? owner_wire_ : pooled_;
  return {requester_wire_.data(), receive.data(), gradients_.to_owners(size_of(wire_.backward))};
}

void PooledBuffers::convert_gradients(Ops& ops) {
  if (!is_converted(wire_.backward)) return;
  const Range owned = {0, padded(gradients_.end().owned)};
  ops.convert(values(owner_wire_.data(), wire_.backward, owned),
              values(pooled_.data(), pooled_as(wire_.backward), owned));
}

}  // namespace dlrm
