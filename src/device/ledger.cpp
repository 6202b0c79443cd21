#include "ledger.h"

#include <algorithm>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include "dlrm/core/shown_bytes.h"

namespace dlrm {
namespace {

constexpr size_t kShown = 6;  // names in a message; the rest are summed

}  // namespace

void Ledger::add(const void* pointer, size_t bytes, const char* what) {
  const std::lock_guard lock(mutex_);
  size_t& total = by_name_[what];
  entries_[pointer] = {bytes, &total};
  total += bytes;
  in_use_ += bytes;
  peak_ = std::max(peak_, in_use_);
}

size_t Ledger::remove(const void* pointer) noexcept {
  const std::lock_guard lock(mutex_);
  const auto entry = entries_.find(pointer);
  if (entry == entries_.end()) return 0;
  const size_t bytes = entry->second.bytes;
  *entry->second.total -= bytes;
  in_use_ -= bytes;
  entries_.erase(entry);
  return bytes;
}

size_t Ledger::in_use() const {
  const std::lock_guard lock(mutex_);
  return in_use_;
}

size_t Ledger::peak() const {
  const std::lock_guard lock(mutex_);
  return peak_;
}

std::string Ledger::holders() const {
  std::vector<std::pair<size_t, std::string>> held;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [name, bytes] : by_name_) {
      if (bytes > 0) held.emplace_back(bytes, name);
    }
  }
  if (held.empty()) return "nothing";
  std::sort(held.begin(), held.end(), [](const auto& a, const auto& b) {
    return a.first != b.first ? a.first > b.first : a.second < b.second;
  });
  std::string text;
  size_t rest = 0;
  for (size_t i = 0; i < held.size(); ++i) {
    if (i >= kShown) {
      rest += held[i].first;
    } else {
      text +=
          fmt::format("{}{} {}", i == 0 ? "" : ", ", held[i].second, shown_bytes(held[i].first));
    }
  }
  if (rest > 0) text += fmt::format(", {} others {}", held.size() - kShown, shown_bytes(rest));
  return text;
}

}  // namespace dlrm
