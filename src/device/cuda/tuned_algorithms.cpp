#include "tuned_algorithms.h"

#include <algorithm>
#include <cstring>

#include "matmul_shape.h"

namespace dlrm::cuda {
namespace {

constexpr int64_t kAligned = 256;
constexpr size_t kKindOfKey = 20;

struct ChoicesHeader {
  uint64_t magic = 0x335448434c524c44;  // "DLRLCHT3"
  MatmulOrigin origin;
  uint64_t count = 0;
};

struct ChoicesEntry {
  MatmulKey key;
  MatmulChoice choice;
};

}  // namespace

int64_t alignment(const void* pointer) {
  const auto address = reinterpret_cast<uintptr_t>(pointer);
  return address == 0 ? kAligned
                      : std::min<int64_t>(kAligned, static_cast<int64_t>(address & (~address + 1)));
}

MatmulKey key_of(const Product& p, bool tf32) {
  const MatmulShape s = shape_of(p);
  const bool aux = uses_aux(p.epilogue);
  return {s.m,
          s.n,
          s.k,
          p.transpose_a,
          p.transpose_b,
          static_cast<int64_t>(p.a.type),
          static_cast<int64_t>(p.d.type),
          p.a.stride,
          p.b.stride,
          p.d.stride,
          p.c.data ? p.c.stride : 0,
          static_cast<int64_t>(p.epilogue),
          aux ? p.aux_stride : 0,
          alignment(p.a.data),
          alignment(p.b.data),
          alignment(p.d.data),
          alignment(p.c.data),
          alignment(p.bias),
          aux ? alignment(p.aux) : 0,
          tf32,
          0};
}

MatmulKey key_of_way(const Product& product, bool tf32) {
  MatmulKey key = key_of(product, tf32);
  key[kKindOfKey] = 1;
  return key;
}

std::vector<std::byte> pack_tuned_algorithms(const TunedAlgorithms& choices,
                                             const MatmulOrigin& origin) {
  ChoicesHeader header;
  header.origin = origin;
  header.count = choices.size();
  std::vector<std::byte> bytes(sizeof(header) + choices.size() * sizeof(ChoicesEntry));
  std::memcpy(bytes.data(), &header, sizeof(header));
  size_t at = sizeof(header);
  for (const auto& [key, choice] : choices) {
    const ChoicesEntry entry{key, choice};
    std::memcpy(bytes.data() + at, &entry, sizeof(entry));
    at += sizeof(entry);
  }
  return bytes;
}

TunedAlgorithms unpack_tuned_algorithms(std::span<const std::byte> bytes,
                                        const MatmulOrigin& origin) {
  ChoicesHeader header;
  const uint64_t magic = header.magic;
  if (bytes.size() < sizeof(header)) return {};
  std::memcpy(&header, bytes.data(), sizeof(header));
  const bool same = header.magic == magic && header.origin.library == origin.library &&
                    header.origin.capability == origin.capability;
  if (!same || (bytes.size() - sizeof(header)) / sizeof(ChoicesEntry) != header.count) return {};
  TunedAlgorithms choices;
  for (uint64_t i = 0; i < header.count; ++i) {
    ChoicesEntry entry;
    std::memcpy(&entry, bytes.data() + sizeof(header) + i * sizeof(entry), sizeof(entry));
    choices[entry.key] = entry.choice;
  }
  return choices;
}

}  // namespace dlrm::cuda
