#pragma once
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "dlrm/core/view.h"
#include "dlrm/encode/text_key.h"

namespace dlrm {

/// Numbers different texts from 0 in the order of first appearance.
class TextTable {
 public:
  /// With `copies` the table has its own copies of texts. Otherwise they must outlive it.
  explicit TextTable(bool copies);

  int64_t size() const { return static_cast<int64_t>(texts_.size()); }
  /// All different texts, in the order of their numbers.
  View<const std::string_view> texts() const { return texts_; }
  /// The number of a text; -1 if it is unknown.
  int32_t find(std::string_view text) const { return find(text, TextKey(text)); }
  /// Fetches memory that find() will read: first that of the text's place, and in a second call,
  /// `at_place`, that of what is there.
  void prefetch(std::string_view text, bool at_place) const;
  /// numbers[i] = `first` + the number of texts[i]. New texts get the next numbers, in order.
  void number_all(View<const std::string_view> texts, int32_t first, int32_t* numbers);
  /// The same for known texts. Others get `first` - 1.
  void find_all(View<const std::string_view> texts, int32_t first, int32_t* numbers) const;

 private:
  static constexpr size_t kBlock = 64;  // texts whose memory is fetched at the same time

  struct Slot {
    uint32_t tag;    // the upper half of the text's hash
    int32_t number;  // -1: the slot is free
  };

  /// `first` + the number of each text, which `otherwise`(text, key) gives if it is not guessed.
  template <class Otherwise>
  void numbers_of(View<const std::string_view> texts, int32_t first, int32_t* numbers,
                  const Otherwise& otherwise) const;
  /// For up to kBlock texts: their keys, and what their numbers seem to be.
  void guess(View<const std::string_view> texts, TextKey* keys, int32_t* numbers) const;
  /// Whether the text, with this key, has this number, which may be -1.
  bool is(int32_t number, std::string_view text, const TextKey& key) const;
  int32_t find(std::string_view text, const TextKey& key) const;
  int32_t insert(std::string_view text, const TextKey& key);
  std::string_view kept(std::string_view text);
  void grow();

  bool copies_;
  std::vector<Slot> slots_;
  size_t mask_;
  std::vector<std::string_view> texts_;
  std::vector<TextKey> keys_;
  std::vector<std::unique_ptr<char[]>> blocks_;  // of copies
  char* next_ = nullptr;
  size_t left_ = 0;
};

}  // namespace dlrm
