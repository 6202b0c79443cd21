#include "dlrm/encode/text_table.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <stdexcept>

namespace dlrm {
namespace {

constexpr size_t kFirstSlots = 1024;
constexpr size_t kBlockBytes = size_t{1} << 20;

uint32_t tag_of(uint64_t hash) { return static_cast<uint32_t>(hash >> 32); }

}  // namespace

TextTable::TextTable(bool copies)
    : copies_(copies), slots_(kFirstSlots, Slot{0, -1}), mask_(kFirstSlots - 1) {}

template <class Otherwise>
void TextTable::numbers_of(View<const std::string_view> texts, int32_t first, int32_t* numbers,
                           const Otherwise& otherwise) const {
  TextKey keys[kBlock];
  for (size_t begin = 0; begin < texts.size(); begin += kBlock, numbers += kBlock) {
    const auto block = texts.subspan(begin, std::min(kBlock, texts.size() - begin));
    guess(block, keys, numbers);
    for (size_t i = 0; i < block.size(); ++i) {
      const bool guessed = is(numbers[i], block[i], keys[i]);
      numbers[i] = first + (guessed ? numbers[i] : otherwise(block[i], keys[i]));
    }
  }
}

void TextTable::number_all(View<const std::string_view> texts, int32_t first, int32_t* numbers) {
  numbers_of(texts, first, numbers,
             [&](std::string_view text, const TextKey& key) { return insert(text, key); });
}

void TextTable::find_all(View<const std::string_view> texts, int32_t first,
                         int32_t* numbers) const {
  numbers_of(texts, first, numbers,
             [&](std::string_view text, const TextKey& key) { return find(text, key); });
}

void TextTable::guess(View<const std::string_view> texts, TextKey* keys, int32_t* numbers) const {
  uint64_t hashes[kBlock];
  for (size_t i = 0; i < texts.size(); ++i) {
    keys[i] = TextKey(texts[i]);
    hashes[i] = keys[i].hash();
    __builtin_prefetch(&slots_[hashes[i] & mask_]);
  }
  for (size_t i = 0; i < texts.size(); ++i) {
    size_t at = hashes[i] & mask_;
    while (slots_[at].number >= 0 && slots_[at].tag != tag_of(hashes[i])) at = (at + 1) & mask_;
    numbers[i] = slots_[at].number;
    if (numbers[i] < 0) continue;
    __builtin_prefetch(&keys_[static_cast<size_t>(numbers[i])]);
    if (!keys[i].whole()) __builtin_prefetch(&texts_[static_cast<size_t>(numbers[i])]);
  }
  for (size_t i = 0; i < texts.size(); ++i) {
    if (numbers[i] < 0 || keys[i].whole()) continue;
    __builtin_prefetch(texts_[static_cast<size_t>(numbers[i])].data());
  }
}

void TextTable::prefetch(std::string_view text, bool at_place) const {
  const Slot& slot = slots_[TextKey(text).hash() & mask_];
  if (!at_place) return __builtin_prefetch(&slot);
  if (slot.number >= 0) __builtin_prefetch(&keys_[static_cast<size_t>(slot.number)]);
}

bool TextTable::is(int32_t number, std::string_view text, const TextKey& key) const {
  if (number < 0 || keys_[static_cast<size_t>(number)] != key) return false;
  return key.whole() ||
         std::memcmp(texts_[static_cast<size_t>(number)].data(), text.data(), text.size()) == 0;
}

int32_t TextTable::find(std::string_view text, const TextKey& key) const {
  const uint64_t hash = key.hash();
  for (size_t at = hash & mask_;; at = (at + 1) & mask_) {
    const Slot& slot = slots_[at];
    if (slot.number < 0 || (slot.tag == tag_of(hash) && is(slot.number, text, key))) {
      return slot.number;
    }
  }
}

int32_t TextTable::insert(std::string_view text, const TextKey& key) {
  const int32_t known = find(text, key);
  if (known >= 0) return known;
  if (texts_.size() >= size_t{std::numeric_limits<int32_t>::max()} - 1) {
    throw std::length_error("too many texts");
  }
  if ((texts_.size() + 1) * 2 > slots_.size()) grow();
  const auto number = static_cast<int32_t>(texts_.size());
  texts_.push_back(kept(text));
  keys_.push_back(key);
  const uint64_t hash = key.hash();
  size_t at = hash & mask_;
  while (slots_[at].number >= 0) at = (at + 1) & mask_;
  slots_[at] = {tag_of(hash), number};
  return number;
}

std::string_view TextTable::kept(std::string_view text) {
  if (!copies_ || text.empty()) return text;
  if (text.size() > left_) {
    left_ = std::max(kBlockBytes, text.size());
    blocks_.push_back(std::make_unique_for_overwrite<char[]>(left_));
    next_ = blocks_.back().get();
  }
  std::memcpy(next_, text.data(), text.size());
  const std::string_view copy(next_, text.size());
  next_ += text.size();
  left_ -= text.size();
  return copy;
}

void TextTable::grow() {
  slots_.assign(slots_.size() * 2, Slot{0, -1});
  mask_ = slots_.size() - 1;
  for (size_t number = 0; number < keys_.size(); ++number) {
    const uint64_t hash = keys_[number].hash();
    size_t at = hash & mask_;
    while (slots_[at].number >= 0) at = (at + 1) & mask_;
    slots_[at] = {tag_of(hash), static_cast<int32_t>(number)};
  }
}

}  // namespace dlrm
